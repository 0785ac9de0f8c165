package redlock

import (
	"math/rand/v2"
	"slices"
	"time"

	"leasehold/internal/boottime"
)

// Pauses of a claim that waits. One that a leasehold or a program with Redisson holds
// is announced when it is free, and these are the floor; redsync announces nothing.
const (
	leastRetry  = 700 * time.Millisecond
	retrySpread = 300 * time.Millisecond
	leastPoll   = 30 * time.Millisecond // between a third and all of what redsync waits
	pollSpread  = 60 * time.Millisecond
)

// pause is how long until the next try, by chance: whoever failed at the same time
// as others must not come again at the same time as they.
func (t *try) pause(all *tally) time.Duration {
	took := boottime.Now() - t.start
	again := took + rand.N(4*took) // longer than an acquisition takes
	ours, theirs, free := 0, 0, []time.Duration{}
	for _, b := range all.all {
		if b.err != nil {
			continue
		}
		if b.ours {
			ours++
		}
		if b.theirs {
			theirs++
		}
		if b.left >= 0 {
			free = append(free, b.left)
		}
	}
	if all.mine > 0 && theirs < t.e.majority {
		return again // several tried at once, and nobody may have it
	}
	look := leastPoll + rand.N(pollSpread)
	if ours >= t.e.majority {
		look = leastRetry + rand.N(retrySpread)
	}
	if slices.Sort(free); len(free) >= t.e.majority {
		look = min(look, free[t.e.majority-1]+time.Millisecond+again)
	}
	return look
}
