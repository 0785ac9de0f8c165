package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// call is one call of the engine.
type call struct {
	from process
	act  claims.Act

	claim   *claims.Claim // Join
	request engine.Request
	maker   *user // Join: in whose goroutine it runs; nil: in nobody's
	asked   []engine.Renewal
	left    []engine.Claim
	comer   *user // Leave: whose Enter follows it

	start, bound time.Duration // by the client's clock, and how long it may take
	over         bool          // its client has an answer, or waits for it no more
}

// process is one life of a client.
type process struct {
	client *client
	life   int
}

func (p process) alive() bool {
	return p.client != nil && p.client.machine != nil && p.client.life == p.life
}

// chance: it happens in so many of 10,000 cases.
func (w *world) chance(r *rand.Rand, of10000 int) bool {
	return !w.settling && of10000 > 0 && r.IntN(10_000) < of10000
}

// delay is how long a message of a client takes.
func (c *client) delay() time.Duration {
	w := c.w
	if w.chance(c.net, w.Network.Slow) {
		d := upTo(c.net, Slowest)
		c.trouble(w.now + d)
		return d
	}
	return w.Network.Delay/2 + upTo(c.net, w.Network.Delay)
}

// trouble: something is wrong for the client until then.
func (c *client) trouble(until time.Duration) {
	c.troubles++
	c.disturb()
	c.w.at(until, func() {
		c.troubles--
		c.disturb()
	})
}

// send puts a call on its way. A request that is lost may be reported at once, as a
// connection that was reset, or never; it may also arrive after that.
func (w *world) send(q *call) {
	c := q.from.client
	w.counts.Requests++
	w.counts.Batch = max(w.counts.Batch, len(q.asked), len(q.left))
	w.counts.Renewals += len(q.asked)
	deadline := c.clock.when(q.start + q.bound)
	there := c.delay()
	if w.Policy == Sessions { // one connection, and all that is sent on it arrives in order
		c.arrives = max(c.arrives, w.now+there)
		there = c.arrives - w.now
	} else if w.chance(c.net, w.Network.Repeat) {
		late := w.now + there + upTo(c.net, Slowest)
		w.at(late, func() {
			if !w.store.down {
				w.say("%v of %v arrives once more", q.act, c)
				w.note('r', c.number, uint64(q.act))
				_, _ = w.store.arrive(q)
			}
		})
	}
	if c.there > 0 || w.chance(c.net, w.Network.Lose) {
		w.say("%v of %v is lost", q.act, c)
		if w.Policy == Sessions {
			c.owed = append(c.owed, q.left...)
		}
		if c.net.IntN(2) == 0 {
			q.fail(min(deadline, w.now+there), errReset)
		} else {
			q.fail(deadline, context.DeadlineExceeded)
		}
		return
	}
	w.at(w.now+there, func() { w.reach(q, deadline) })
}

// reach: a call reaches the engine, and its answer sets out.
func (w *world) reach(q *call, deadline time.Duration) {
	c := q.from.client
	if w.store.down {
		q.fail(min(deadline, w.now+c.delay()), errDown)
		return
	}
	got, err := w.store.arrive(q)
	w.note('a', c.number, uint64(q.act)<<8|sum(got))
	back := c.delay()
	lost := w.chance(c.net, w.Network.Lose)
	w.at(min(deadline, w.now+back), func() {
		if lost || c.back > 0 || w.now >= deadline {
			w.say("the answer of %v to %v is lost", q.act, c)
			q.fail(deadline, context.DeadlineExceeded)
			return
		}
		q.finish(got, err)
	})
}

// fail has a call end at a moment without an answer.
func (q *call) fail(at time.Duration, err error) {
	c := q.from.client
	c.trouble(at)
	c.w.at(at, func() { q.finish(nil, err) })
}

// finish tells the client how its call ended.
func (q *call) finish(got []engine.Claim, err error) {
	q.from.client.do(q.from.life, func() {
		if q.over {
			return // whose goroutine it was has had enough
		}
		q.over = true
		q.from.client.answered(q, got, err)
	})
}

// notify puts a notification on its way.
func (w *world) notify(c *client, claim engine.Claim) {
	w.counts.Notifications++
	d := c.delay()
	if !c.subscribed || c.back > 0 || w.chance(c.net, w.Network.Lose) {
		c.disturb()
		w.say("%v is not notified: ticket %s is %v", c, short(claim.Ticket), claim.State)
		return
	}
	p := process{c, c.life}
	w.at(w.now+d, func() {
		if c.back == 0 && c.subscribed {
			c.do(p.life, func() { c.notified(claim) })
		} else {
			c.disturb()
		}
	})
}

// sum is a number that tells answers apart.
func sum(got []engine.Claim) (x uint64) {
	for i := range got {
		x = x*31 + got[i].Ticket<<3 + uint64(got[i].State)
	}
	return x
}
