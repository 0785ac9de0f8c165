package claims

import (
	"errors"
	"time"

	"leasehold/engine"
)

// leaveLater gives a claim up in the background: from the next Tick on, Leave is
// repeated until the engine answers or the claim must have expired.
func (m *Machine) leaveLater(now time.Duration, cl *Claim) {
	m.leaveFrom(now, cl, Leaving, max(cl.TTL(), cl.granted))
}

// doubt gives up a claim whose Join may still arrive.
func (m *Machine) abandon(now time.Duration, cl *Claim) {
	m.leaveFrom(now, cl, Abandoned, 2*cl.waitTTL) // later it is not worth a request any more
}

func (m *Machine) leaveFrom(now time.Duration, cl *Claim, p Phase, most time.Duration) {
	m.leaveOld(now, cl)
	cl.callers.release(cl)
	m.to(cl, p)
	cl.retries, cl.next, cl.until = 0, now, now+most
	m.schedule(cl)
}

// leaveOld gives up what the Join of cl was to replace.
func (m *Machine) leaveOld(now time.Duration, cl *Claim) {
	if old := cl.old; old != nil {
		cl.old = nil
		m.leaveLater(now, old)
	}
}

func (m *Machine) leaveAgain(now time.Duration, cl *Claim) {
	if now > cl.until {
		m.forget(cl) // it must have expired
		return
	}
	cl.next = now + m.backoff(cl.retries)
	cl.retries++
	m.schedule(cl)
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
		m.forget(cl)
	case cl.phase == Releasing && !m.closed:
		cl.callers.orphan = cl.id
		m.leaveLater(now, cl)
		cl.next += m.backoff(0)
		m.schedule(cl)
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
	case found.Revoked:
		m.end(l, Revoked, nil)
	default:
		m.end(l, Expired, errors.New("the engine had no such claim any more"))
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
			m.loseLeases(cl, Closed)
			m.to(cl, Lingering)
			cl.until = now + left
			want := cl.want(now)
			m.emit(Output{Act: Renew, Claim: cl, Want: want, Bound: want})
			continue
		}
		if cl.phase != Lingering && cl.phase != Releasing {
			if cl.phase.open() {
				m.loseLeases(cl, Closed)
				m.to(cl, Lost)
			}
			m.emit(Output{Act: Leave, Claim: cl})
		}
	}
	for _, q := range m.callersOf {
		m.failAll(q, Closed, nil)
	}
}
