package claims

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
)

func refused(err error) bool { return errors.Is(err, engine.ErrRefused) }

// join makes the claim that a queue waits for next. With old it takes old's
// place in one step (Replaces); otherwise that of a claim whose Leave was never
// answered.
func (m *Machine) join(now time.Duration, q *callers, old *Claim) {
	c := q.head
	m.serial++
	cl := &Claim{
		callers: q, old: old, id: m.cfg.NewID(), serial: m.serial, permits: q.key.permits, limit: q.key.limit,
		waitTTL: min(m.firstTTL, q.key.ttl), minHold: c.MinHold, maxHold: c.MaxHold,
		noWait: c.NoWait, noRenew: c.NoRenew, detached: c.Detached || c.MinHold > 0 && m.cfg.Detached,
		index: -1, phase: Joining,
	}
	cl.contention.budget = notCounted
	if old != nil {
		// Neither is renewed until the answer: the engine may have done it.
		cl.replaces = old.id
		m.giveUp(now, old, Replaced, OK, nil)
	} else if !cl.noWait {
		cl.replaces = q.orphan
	}
	q.current, q.err = cl, nil
	q.claims++
	m.claims[cl.id] = cl
	if q.gone > 1 && old == nil {
		// Something ends what is made, time and again: not as fast as it can.
		q.err = errGone
		m.to(cl, Indeterminate)
		cl.again = now + m.backoff(q.gone-2)
		m.schedule(cl)
	} else {
		m.ask(cl)
	}
	if !cl.noWait {
		m.makeWay(now, q)
	}
}

// errGone is why callers wait while the next claim is not asked for yet.
var errGone = errors.New("what this caller waits with is gone each time the engine is asked: something else writes what it keeps of the name, or it is far too slow")

// ask sends the Join of a claim. The first time it is made for a caller, who may
// do it himself.
func (m *Machine) ask(cl *Claim) {
	o := Output{Act: Join, Claim: cl}
	if !cl.asked {
		cl.asked, o.Caller = true, cl.callers.head
	}
	m.emit(o)
}

// makeWay: this process does not keep for nobody what one of its callers waits behind, and
// its readers let its writer through, as they would one of another process; neither needs
// a notification, which an engine without order may not send. Readers who wait for their
// claim to be proven came before the writer, and are handed it first.
func (m *Machine) makeWay(now time.Duration, q *callers) {
	m.inTheWay(q.key, q, func(cl *Claim) {
		switch {
		case cl.phase == Idle:
			m.giveUp(now, cl, Leaving, OK, nil)
		case cl.phase == InUse && !cl.exclusive() && !q.solo && cl.callers.head == nil:
			m.drain(cl)
		}
	})
}

// Joined is the answer of a Join that began at s. cancelled says that the call
// was given up by its caller, so that err says nothing about the engine.
func (m *Machine) Joined(now time.Duration, cl *Claim, s time.Duration, got engine.Claim, err error, cancelled bool) {
	m.traceInput(now, "joined", cl.Name(), cl.ticket)
	if m.closed {
		return // Close has left it
	}
	m.tried(cl)
	if err == nil || !cancelled {
		m.answered(now, err)
	}
	switch {
	case refused(err):
		// Final, nothing left behind; what it would have replaced still stands.
		m.giveUp(now, cl, Gone, Refused, err)
	case err != nil:
		m.indeterminate(now, cl, err, cancelled)
	default:
		m.inLine(now, cl, s, got)
	}
}

// unclear: the Join may or may not have arrived.
func (m *Machine) indeterminate(now time.Duration, cl *Claim, err error, cancelled bool) {
	if cl.phase == Cancelled || cl.noWait || m.cfg.FailFast && !cancelled {
		m.giveUp(now, cl, Abandoned, Unavailable, err)
		return
	}
	q := cl.callers
	m.to(cl, Indeterminate)
	cl.again, cl.poll = 0, false
	if cancelled {
		// Whose goroutine asked has had enough and is about to give up, which
		// gives the claim up too or has it asked for again. Asking now, for
		// those who still wait, could give a lease to the one who is going.
		m.schedule(cl)
	} else {
		q.err = err
		m.pause(now, cl)
		if errors.Is(err, context.DeadlineExceeded) {
			// No answer in the time asked for: ask for more, which also gives
			// the next attempt more time (an engine slower than waitTTL).
			cl.waitTTL = min(2*cl.waitTTL, cl.TTL())
			m.firstTTL = max(m.firstTTL, cl.waitTTL)
		}
	}
}

// inQueue: the engine answered what became of the claim.
func (m *Machine) inLine(now time.Duration, cl *Claim, s time.Duration, got engine.Claim) {
	q := cl.callers
	q.err = nil
	m.replaced(now, cl)
	if !m.cfg.Unordered || got.State != engine.Waiting {
		cl.Owner = nil
	}
	if cl.born == 0 {
		cl.born = s
	}
	if cl.phase == Cancelled || cl.receivedRevoked || got.State == engine.Gone {
		why := OK
		switch {
		case cl.noWait:
			why = Held
		case cl.receivedRevoked || got.Revoked:
			why = Revoked
		}
		if got.State == engine.Gone && !got.Revoked {
			q.again(cl)
			m.giveUp(now, cl, Gone, why, nil)
		} else {
			m.giveUp(now, cl, Leaving, why, nil)
		}
		m.advance(now, q, false) // expired on the way: again, silently
		return
	}
	cl.learn(now, s, cl.waitTTL, got)
	if got.State == engine.Held || cl.receivedHeld {
		m.ready(now, cl)
		cl.raised = cl.granted >= cl.TTL()
	} else {
		m.to(cl, Waiting)
	}
	if now-s < m.firstTTL/8 {
		m.firstTTL = max(FirstTTL, m.firstTTL/2) // as fast as ever again
	}
	m.pace(now, cl, got.PollAfter)
	if cl.noWait && cl.proven(now) && m.share(cl) {
		q = cl.callers
	}
	if cl.contention.yes {
		m.contend(now, cl)
	}
	m.advance(now, q, true)
}

// replaced: the answered Join of cl has left what it replaced.
func (m *Machine) replaced(now time.Duration, cl *Claim) {
	if cl.old != nil {
		m.giveUp(now, cl.old, Gone, OK, nil)
		cl.old, cl.replaces = nil, engine.ID{}
		return
	}
	// The Join of a doubtful orphan may still arrive: it goes on being left.
	if orphan := m.claims[cl.replaces]; orphan != nil && orphan.phase == Leaving {
		m.giveUp(now, orphan, Gone, OK, nil)
	}
	if cl.replaces == cl.callers.orphan {
		cl.callers.orphan = engine.ID{}
	}
	cl.replaces = engine.ID{}
}

// share lets local callers have what one that does not wait got for itself, and
// reports whether it did.
func (m *Machine) share(cl *Claim) bool {
	solo := cl.callers
	c := solo.head
	if m.cfg.NoLocalHandoff || c == nil || !c.mayHandOff() || m.holds(c) {
		return false
	}
	q := m.find(solo.key)
	if q == nil {
		q = &callers{key: solo.key}
		m.found(q)
	} else if q.current != nil || q.head != nil {
		return false
	}
	solo.remove(c)
	q.push(c)
	solo.current, q.current, cl.callers = nil, cl, q
	solo.claims--
	q.claims++
	return true
}
