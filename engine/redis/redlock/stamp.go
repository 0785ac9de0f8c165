package redlock

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// stamp is phase 2: 0 and no error if a majority of those that said mine does not
// have it so.
func (t *try) stamp(ctx context.Context, all *tally) (uint64, error) {
	e := t.e
	ours, highest, said := t.near(all)
	if len(ours) < e.majority {
		for _, i := range ours {
			said = append(said, ballot{master: i})
		}
		return 0, e.unavailable(said)
	}
	ticket := max(e.clock.now(boottime.Now()), highest+1)
	if ticket > engine.MaxTicket {
		return 0, engine.Refuse("the next ticket would be above %d: the clocks of these masters are wrong; set them", uint64(engine.MaxTicket))
	}
	type answer struct {
		ballot
		yes bool
	}
	answers := make(chan answer, len(ours))
	for _, i := range ours {
		e.spawn(func() {
			got := answer{ballot: ballot{master: i}}
			var as []redisconn.Answer
			if as, got.err = e.masters[i].vote(e.life, e.scripts.stamp, []redisconn.Call{{
				Keys: t.keys[:2], Args: []string{t.r.ID.Secret(), decimal(ticket)},
			}}); got.err == nil {
				var n int64
				n, got.err = as[0].AsInt64()
				got.yes, got.err = n == 1, explain(got.err, t.keys)
			}
			answers <- got
		})
	}
	timer := time.NewTimer(e.opts.timeout(t.r.WaitTTL))
	defer timer.Stop()
	yes, owed, failed := 0, len(ours), false
	err := receive(ctx, e, answers, timer.C, func(a answer) bool {
		owed--
		said = append(said, a.ballot)
		failed = failed || a.err != nil
		if a.yes {
			yes++
		}
		// After a failure all are heard, so that who is said not to answer does not.
		return yes >= e.majority || !failed && yes+owed < e.majority
	})
	switch {
	case err != nil:
		return 0, err
	case yes >= e.majority:
		return ticket, nil
	case failed || yes+owed >= e.majority:
		return 0, e.unavailable(said)
	}
	return 0, nil
}

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
