package claims

import (
	"errors"
	"fmt"
	"time"

	"leasehold/engine"
)

// EnterBehind is Enter for a caller who can only queue, behind an exclusive
// lease of this process. It reports false if that is not so, and has done
// nothing then. It needs no time: reading the clock is the larger half of what
// a hand-over inside a process costs.
func (m *Machine) EnterBehind(c *Caller) bool {
	q := m.find(key{c.Name, c.Permits, c.Limit, c.TTL})
	if m.closed || q == nil || q.current == nil || q.current.phase != InUse || !q.current.exclusive() ||
		c.NoWait || c.Lease.Outer != nil || len(c.Holds) > 0 || m.cfg.NoLocalHandoff || !c.mayHandOff() {
		return false
	}
	m.traceInput(m.at, "enter", c.Name, 0)
	m.enterBehind(q, c)
	return true
}

func (m *Machine) enterBehind(q *callers, c *Caller) {
	q.push(c)
	m.notifyContended(q.current)
	m.schedule(q.current)
}

// Enter is a caller who asks. It is answered by one Deliver or Fail, now or
// later, unless it gives up.
func (m *Machine) Enter(now time.Duration, c *Caller) {
	m.traceInput(now, "enter", c.Name, 0)
	if m.closed {
		m.fail(c, Closed, nil)
		return
	}
	if m.reenter(now, c) {
		return
	}
	k := key{c.Name, c.Permits, c.Limit, c.TTL}
	q := m.find(k)
	// What a caller wants for itself, or holds already, keeps it out of the
	// shared queue: a holder that queued behind a local claim could wait for a
	// sibling that waits for it, unseen by anybody who looks at the queues.
	special := m.cfg.NoLocalHandoff || !c.mayHandOff()
	own := special || m.holds(c)
	if c.NoWait && !special && q != nil && q.head == nil && m.tryLocal(now, c, q, own) {
		return
	}
	if own || c.NoWait {
		q = &callers{key: k, solo: true}
	} else if q == nil {
		q = &callers{key: k}
		m.found(q)
	}
	if cl := q.current; cl != nil && cl.phase == InUse && cl.exclusive() {
		m.enterBehind(q, c)
		return
	}
	q.push(c)
	m.advance(now, q, false)
}

// tryLocal answers a caller that does not wait by what this process holds, if
// it can; nobody queues for that.
func (m *Machine) tryLocal(now time.Duration, c *Caller, q *callers, actor bool) bool {
	cl := q.current
	switch {
	case cl == nil || !cl.proven(now):
	case cl.phase == InUse && cl.exclusive():
		// Certainly held, by us: no need to ask.
		m.notifyContended(cl)
		m.fail(c, Held, nil)
		return true
	case cl.phase == InUse && actor:
	case cl.fresh(now) && m.allowsHandoff(now, cl):
		// Also to an actor if it is idle: that is no queueing.
		m.give(now, cl, c)
		return true
	}
	return false
}

// GiveUp takes a caller out of its queue. It reports false if the caller was
// answered already.
func (m *Machine) GiveUp(now time.Duration, c *Caller) bool {
	q := c.callers
	if q == nil {
		return false
	}
	m.traceInput(now, "give up", c.Name, 0)
	q.remove(c)
	c.Err = q.err
	cl := q.current
	if cl == nil {
		return true
	}
	c.Ticket, c.Silent = cl.ticket, cl.phase.unanswered() && !cl.receivedHeld && (cl.born == 0 || q.err != nil) ||
		cl.phase.in(1<<Ready|1<<Proving) && cl.sent > 0 // the name is this claim's, and only the Renew that proves it is missing
	switch cl.phase {
	case Indeterminate:
		switch {
		case q.head != nil && !cl.asked: // it is asked for in its time
		case q.head == nil && !cl.asked:
			m.giveUp(now, cl, Gone, OK, nil)
		case q.head == nil:
			m.giveUp(now, cl, Abandoned, OK, nil)
		default:
			// It may have been this caller's goroutine that asked; others still
			// wait.
			m.renewNow(cl)
		}
	case Joining:
		if q.head == nil {
			m.giveUp(now, cl, Cancelled, OK, nil)
		}
	case Waiting, Ready, Proving:
		if q.head == nil {
			m.giveUp(now, cl, Leaving, OK, nil)
		}
	}
	return true
}

// ReleaseIdle comes before the Enter of a caller who does not wait: a claim that this
// process keeps of the name for nobody would refuse it. The Leave of each has c as its
// Caller, and is to be over before c enters.
func (m *Machine) ReleaseIdle(now time.Duration, c *Caller) {
	if m.closed {
		return
	}
	k := key{c.Name, c.Permits, c.Limit, c.TTL}
	var own *callers // whose idle claim Enter hands over
	if !m.cfg.NoLocalHandoff && c.mayHandOff() {
		own = m.find(k)
	}
	m.inTheWay(k, own, func(cl *Claim) {
		if cl.phase == Idle {
			m.traceInput(now, "make room", c.Name, cl.ticket)
			m.giveUp(now, cl, Releasing, OK, nil)
			m.emit(Output{Act: Leave, Claim: cl, Caller: c})
		}
	})
}

// advance moves a queue on as far as it can: whenever a caller came or its
// claim changed. answered says that the engine just proved the claim.
func (m *Machine) advance(now time.Duration, q *callers, answered bool) {
	if q.head == nil || m.closed {
		return
	}
	cl := q.current
	if cl == nil {
		m.join(now, q, nil)
		return
	}
	switch cl.phase {
	case Ready, Proving, Idle:
	case InUse:
		if cl.exclusive() {
			return // its Unlock goes on from here
		}
	default:
		return // the answer goes on
	}
	// A claim just proven is delivered however little is left of it: with a
	// slow engine there may never be more.
	if !cl.proven(now) || cl.needsRaise() || !answered && !cl.fresh(now) {
		if cl.phase == Idle {
			m.to(cl, Proving)
		}
		if cl.inflight == 0 {
			m.renewNow(cl)
		}
		return // its answer goes on
	}
	m.handOff(now, q, cl)
}

// holds reports whether a caller holds anything, of this machine or another: then
// it is an actor that queues for itself.
func (m *Machine) holds(c *Caller) bool {
	for h := c.Lease.Outer; h != nil; h = h.Outer {
		if o := h.Lease; o.machine == m && o.hold.count > 0 || o.machine != m && !o.Over() {
			return true
		}
	}
	return len(c.Holds) > 0
}

// Uses reports whether leases are open of the claim with a ticket.
func (m *Machine) Uses(ticket uint64) bool {
	for _, cl := range m.claims {
		if cl.ticket == ticket && cl.phase.open() {
			return true
		}
	}
	return false
}

// BehindOwn reports whether a caller waits for a claim of which leases of this process
// are open.
func (m *Machine) BehindOwn(c *Caller) bool {
	q := c.callers
	return q != nil && q.current != nil && q.current.phase.open()
}

// Place is the ticket with which a caller waits in the engine's queue, by itself.
// false: it does not, or not yet.
func (m *Machine) Place(c *Caller) (ticket uint64, waits bool) {
	if q := c.callers; q != nil && q.solo && q.current != nil && q.current.phase == Waiting {
		return q.current.ticket, true
	}
	return 0, false
}

// reenter decides about a caller whose own context holds the name already:
// a caller that waited for that hold would wait for itself. It reports whether the
// caller is answered.
func (m *Machine) reenter(now time.Duration, c *Caller) bool {
	permits := int32(0)
	for h := c.Lease.Outer; h != nil; h = h.Outer {
		o := h.Lease
		if o.machine != m || o.hold.count == 0 || o.claim.Name() != c.Name {
			continue
		}
		cl := o.claim
		m.expire(now, cl)
		switch {
		case cl.phase == Lost:
			// o may have been unlocked before the loss, and says OK then. A handle that
			// was open at the loss is still on the claim: the hold counts it.
			m.fail(c, cl.leases.lost, errors.New("unlock it before asking again"))
		case cl.limit != c.Limit:
			m.fail(c, Own, &engine.LimitError{Name: c.Name, Have: cl.limit, Want: c.Limit})
		case c.lockLike() && c.Permits > cl.permits:
			m.fail(c, Upgrade, nil)
		case !c.Reentrant:
			m.fail(c, Own, nil)
		case c.lockLike():
			m.open(now, cl, c.Lease, o.hold)
			c.Lease.Token = o.Token
			m.emit(Output{Act: Deliver, Caller: c, Lease: c.Lease, HandedOff: true})
		default:
			permits += cl.permits // a claim of its own each: no sum exceeds the limit
			continue
		}
		return true
	}
	if permits > 0 && permits > c.Limit-c.Permits {
		m.fail(c, Own, fmt.Errorf("it holds %d of %d and asks for %d", permits, c.Limit, c.Permits))
		return true
	}
	return false
}
