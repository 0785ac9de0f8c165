package redlock

import (
	"time"

	"leasehold/engine"
)

// far is how far a counter may be ahead of the masters' clocks and still be followed.
// Tickets are the time, so what is a year ahead was not given by clocks that are
// right now: a master was damaged, or clocks were wrong for all of them.
const far = 365 * 24 * time.Hour

// near are the masters of S whose counters phase 2 asks to be surpassed, and the
// highest of these counters. One master near the end of all numbers would otherwise
// spread its counter to all of them, and nobody could be given a ticket for hours.
//
// The others are dropped while a majority remains. Tickets rise all the same: what
// makes them rise is that a majority says yes in stamp.lua, each where no ticket as
// high was given, and not which number the client asks for (in package model it asks
// for any). A master that is dropped would say no, and keeps its counter.
//
// Where no majority remains nobody knows which counters are wrong, and nothing is
// asked. rest is what the others said, those that are dropped with an error of their
// own.
func (t *try) near(all *tally) (masters []int, highest uint64, rest []ballot) {
	now := t.e.clock.now(t.start)
	for _, b := range all.all {
		if b.err == nil && b.state == engine.Held {
			if b.counter <= now+uint64(far.Microseconds()) {
				masters, highest = append(masters, b.master), max(highest, b.counter)
				continue
			}
			b.err = engine.Refuse("the counter in the key %q is %d, more than a year ahead of the masters' clocks: put the clocks right, "+
				"or, where the counter is damaged, delete that key while nobody holds", t.keys[1], b.counter)
		}
		rest = append(rest, b)
	}
	return masters, highest, rest
}
