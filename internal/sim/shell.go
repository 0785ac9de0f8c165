package sim

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// work is the calls that a round of outputs asks for.
type work struct {
	renew *call // all renewals of one moment
	leave *call // all Leaves that nobody waits for
	first *call // those that a caller's Enter follows
}

// carryOut does what the machine asks for. me is the caller whose Enter it is: its Join
// runs in its own goroutine.
func (c *client) carryOut(me *user) {
	var todo work
	outputs := c.machine.Outputs()
	for i := range outputs {
		switch o := &outputs[i]; o.Act {
		case claims.Join:
			c.join(o, me)
		case claims.Renew:
			q := c.part(&todo.renew, claims.Renew)
			q.asked = append(q.asked, engine.Renewal{Name: o.Claim.Name(), ID: o.Claim.ID(), Want: o.Want})
			q.bound = max(q.bound, o.Bound)
		case claims.Leave:
			c.leave(o, &todo)
		case claims.Deliver:
			o.Caller.Tag.(*user).delivered(o)
		case claims.Fail:
			o.Caller.Tag.(*user).failed(o)
		case claims.Lose:
			o.Lease.Tag.(*user).loses(o)
		case claims.End:
			o.Lease.Tag.(*user).ends(o)
		case claims.Down, claims.Up:
			c.w.note('d', c.number, uint64(o.Act))
		}
	}
	clear(outputs)
	for _, q := range [...]*call{todo.renew, todo.leave, todo.first} {
		if q != nil {
			c.w.send(q)
		}
	}
	c.plan()
}

func (c *client) join(o *claims.Output, me *user) {
	q := c.call(claims.Join)
	q.claim, q.request = o.Claim, o.Claim.Request()
	q.bound = q.request.WaitTTL
	if me != nil && o.Caller != nil && o.Caller == me.caller {
		q.maker, me.join = me, q
	}
	if err := q.request.Check(); err != nil {
		c.w.fail(Asked, "%v asks for what every engine refuses: %v", c, err)
	}
	c.w.send(q)
}

// leave: the Leave of an Unlock is a call of its own.
func (c *client) leave(o *claims.Output, todo *work) {
	var own *call
	of := &todo.leave
	switch {
	case o.Lease != nil:
		of = &own
	case o.Caller != nil:
		of = &todo.first
	}
	q := c.part(of, claims.Leave)
	q.bound = claims.ReleaseBound
	q.left = append(q.left, engine.Claim{Name: o.Claim.Name(), ID: o.Claim.ID()})
	if o.Caller != nil {
		q.comer = o.Caller.Tag.(*user)
		q.comer.state = comes
	}
	if own != nil {
		c.w.send(own)
	}
}

// part is the call that many outputs are part of.
func (c *client) part(q **call, act claims.Act) *call {
	if *q == nil {
		*q = c.call(act)
	}
	return *q
}

func (c *client) call(act claims.Act) *call {
	return &call{from: process{c, c.life}, act: act, start: c.now()}
}

// answered reports the answer of a call to the machine.
func (c *client) answered(q *call, got []engine.Claim, err error) {
	c.w.note('c', c.number, uint64(q.act)<<1)
	now := c.now()
	switch q.act {
	case claims.Join:
		if q.maker != nil && q.maker.join == q {
			q.maker.join = nil
		}
		var one engine.Claim
		if err == nil {
			one = got[0]
		}
		c.machine.Joined(now, q.claim, c.start(now, q.start, min(one.TTL, q.request.WaitTTL)), one, err, errors.Is(err, context.Canceled))
	case claims.Renew:
		c.renewed(now, q, got, err)
	case claims.Leave:
		c.machine.Left(now, q.left, got, err)
	}
	c.carryOut(nil)
	if q.comer != nil && q.comer.state == comes {
		q.comer.enter()
	}
}

func (c *client) renewed(now time.Duration, q *call, got []engine.Claim, err error) {
	if c.w.Broken == Nothing || err != nil {
		c.machine.Renewed(now, q.start, q.asked, got, err)
		return
	}
	for i := range q.asked {
		start := c.start(now, q.start, min(got[i].TTL, q.asked[i].Want))
		c.machine.Renewed(now, start, q.asked[i:i+1], got[i:i+1], err)
	}
}

// start is from when a call that was granted ttl counts. A broken client says what makes
// its machine trust a lease for longer than it may.
func (c *client) start(now, start, ttl time.Duration) time.Duration {
	switch c.w.Broken {
	case NoMargin:
		return start + margin(ttl)
	case FromAnswer:
		return now
	}
	return start
}

// margin is what clients do not trust of a TTL (docs/design.md, section 4).
func margin(ttl time.Duration) time.Duration { return ttl/100 + 7*time.Millisecond }
