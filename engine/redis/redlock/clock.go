package redlock

import (
	"slices"
	"sync/atomic"
	"time"
)

// clock is what this client knows of the masters' clocks: the middle one of a
// majority that answered, so that a few that are wrong have no say. Of two in the
// middle it is the earlier: a proposal that is too low costs a second phase, one
// that is too high uses numbers up. It proposes tickets and orders who waits; no
// expiry hangs on it.
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

func (c *clock) learn(ballots []ballot, majority int) {
	var ahead []time.Duration
	for _, b := range ballots {
		if b.sent && b.err == nil {
			ahead = append(ahead, b.clock)
		}
	}
	if len(ahead) >= majority {
		slices.Sort(ahead)
		c.ahead.Store(ahead[(len(ahead)-1)/2].Microseconds())
	}
}
