package redlock

import (
	"slices"
	"sync/atomic"
	"time"
)

// clock is what this client knows of the masters' clocks: the middle one of those
// that answered, so that a minority that is wrong has no say. It proposes tickets
// and orders who waits; no expiry hangs on it.
type clock struct {
	ahead atomic.Int64 // of boottime, in microseconds; 0: not known yet
}

// now is the masters' time at a moment by boottime, in microseconds; 0 if it is
// not known.
func (c *clock) now(at time.Duration) uint64 {
	ahead := c.ahead.Load()
	if ahead == 0 {
		return 0
	}
	return uint64(max(0, ahead+at.Microseconds()))
}

func (c *clock) learn(ballots []ballot) {
	var ahead []time.Duration
	for _, b := range ballots {
		if b.sent && b.err == nil {
			ahead = append(ahead, b.clock)
		}
	}
	if len(ahead) > 0 {
		slices.Sort(ahead)
		c.ahead.Store(ahead[len(ahead)/2].Microseconds())
	}
}
