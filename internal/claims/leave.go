package claims

import (
	"time"

	"leasehold/engine"
)

// Every claim ends here. giveUp is the one way into the phases in which nobody wants
// it any more; what is left to do for it follows from the phase.

// giveUp ends what this client wants of a claim. p says how:
//
//	Cancelled  its Join is under way: it is left when that was answered
//	Replaced   the Join of another claim leaves it
//	Releasing  its Leave goes out now, and somebody waits for the answer
//	Leaving    Leave is repeated until the engine answers or it must have expired
//	Abandoned   and for as long as its Join may still arrive
//	Gone       the engine has no such claim
//
// Unless why is OK, everybody who waits for the claim fails with it. A claim that its
// Join was to replace is left: the engine may have done that, or not.
func (m *Machine) giveUp(now time.Duration, cl *Claim, p Phase, why Reason, err error) {
	if why != OK {
		m.failClaim(cl, why, err)
	}
	if old := cl.old; old != nil && p != Cancelled {
		cl.old = nil
		m.giveUp(now, old, Leaving, OK, nil)
	}
	cl.callers.release(cl)
	m.to(cl, p)
	cl.retries, cl.again = 0, now
	switch p {
	case Leaving:
		cl.until = now + max(cl.TTL(), cl.granted)
	case Abandoned:
		cl.until = now + 2*cl.waitTTL // later it is not worth a request any more
	case Gone:
		m.forget(cl)
		return
	}
	m.schedule(cl)
}

// whyGone says why the engine has no such claim, as far as can be told: one that it had
// to keep for longer was ended by somebody, or forgotten with the store.
func (cl *Claim) whyGone(now time.Duration, got engine.Claim) Reason {
	switch {
	case got.Revoked:
		return Revoked
	case now < cl.trustedUntil():
		return Deleted
	}
	return Expired
}

// forget drops a claim, and its queue with the last one.
func (m *Machine) forget(cl *Claim) {
	m.timers.remove(cl)
	delete(m.claims, cl.id)
	q := cl.callers
	if q.orphan == cl.id {
		q.orphan = engine.ID{}
	}
	if q.claims--; q.claims == 0 && q.head == nil {
		m.unfound(q)
	}
}

// gone: the engine does not have the claim any more, at least not in the life that
// this client knows.
func (m *Machine) gone(now time.Duration, cl *Claim, got engine.Claim) {
	why := cl.whyGone(now, got)
	if cl.phase.open() {
		m.lose(now, cl, why, nil)
		return
	}
	said := why
	if idle := min(now, cl.trustedUntil()) >= cl.until; cl.phase == Lingering && why != Revoked && idle {
		said = OK // it expired after its MinHold, and this was heard late
	}
	m.endLingering(cl, never, said, nil)
	q, fail := cl.callers, OK
	switch {
	case cl.phase.used():
	case got.Revoked:
		fail = Revoked
	default:
		q.again(cl)
	}
	if got.State == engine.Gone && !got.Revoked {
		m.giveUp(now, cl, Gone, fail, nil)
	} else {
		m.giveUp(now, cl, Leaving, fail, nil) // marked or made anew: it takes its room until it is left
	}
	m.advance(now, q, false)
}

// leaveAgain repeats the Leave of a claim.
func (m *Machine) leaveAgain(now time.Duration, cl *Claim) {
	switch {
	case cl.phase == Abandoned && now >= cl.until:
		// For the last time, whenever its Join arrived before this.
		m.to(cl, Leaving)
		cl.until = now
	case now > cl.until:
		m.giveUp(now, cl, Gone, OK, nil) // it must have expired
		return
	}
	m.pause(now, cl)
	if now < cl.until && cl.until < cl.again {
		cl.again = cl.until
		m.schedule(cl)
	}
	m.emit(Output{Act: Leave, Claim: cl})
}

// Left is the answer of one Leave.
func (m *Machine) Left(now time.Duration, asked, got []engine.Claim, err error) {
	m.traceInput(now, "left", "", 0)
	m.answered(now, err)
	for i, q := range asked {
		cl := m.claims[q.ID]
		if cl == nil {
			continue
		}
		var found engine.Claim // Unknown: the answer leaves it out
		if i := find(got, i, q.ID); i >= 0 {
			found = got[i]
		}
		m.left(now, cl, found, err)
	}
}

// left takes in what one claim was found as.
func (m *Machine) left(now time.Duration, cl *Claim, found engine.Claim, err error) {
	l := cl.waiter
	cl.waiter = nil
	switch {
	case cl.phase == Abandoned && (found.State == engine.Unknown || found.State == engine.Gone && !found.Revoked):
		// The Join that was given up may be behind the Leave, on another
		// connection, and nobody would renew or leave what it makes: the name
		// would be taken for its waitTTL. So it is left again.
		cl.callers.orphan = cl.id
	case found.State != engine.Unknown:
		m.giveUp(now, cl, Gone, OK, nil)
	case cl.phase == Releasing && !m.closed:
		cl.callers.orphan = cl.id
		m.giveUp(now, cl, Leaving, OK, nil)
		m.pause(now, cl)
		cl.retries = 0
	case cl.phase == Leaving:
		cl.callers.orphan = cl.id // the next Join replaces it
	}
	if l == nil {
		return
	}
	switch {
	case found.State == engine.Unknown:
		m.end(l, Unknown, orMissing(err))
	case found.State == engine.Held:
		m.end(l, OK, nil)
	default:
		m.end(l, cl.whyGone(now, found), nil)
	}
}

// Close ends every lease and every waiting caller, and gives every claim up:
// Leave for each, but Renew for one that MinHold is to keep. After it only Left
// of an Unlock that was under way means anything.
func (m *Machine) Close(now time.Duration) {
	m.traceInput(now, "close", "", 0)
	if m.closed {
		return
	}
	m.closed = true
	for _, cl := range m.inOrder() {
		m.timers.remove(cl) // nothing is due any more
		m.failClaim(cl, Closed, nil)
		m.expire(now, cl)
		if left := cl.minHold - (now - cl.heldAt); left > 0 && cl.phase == InUse {
			m.loseLeases(cl, Closed, nil)
			m.to(cl, Lingering)
			cl.until = now + left
			want := min(cl.want(now), m.cfg.Longest)
			m.emit(Output{Act: Renew, Claim: cl, Want: want, Bound: want})
			continue
		}
		// The Leave of an Unlock goes on, and Close waits for it. That of ReleaseIdle may
		// be cut off: it is sent once more.
		if cl.phase != Lingering && (cl.phase != Releasing || cl.waiter == nil) {
			if cl.phase.open() {
				m.loseLeases(cl, Closed, nil)
				m.to(cl, Lost)
			}
			m.emit(Output{Act: Leave, Claim: cl})
		}
	}
	for _, q := range m.callersOf {
		for ; q != nil; q = q.sibling {
			m.failAll(q, Closed, nil)
		}
	}
}
