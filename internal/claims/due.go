package claims

import (
	"math"
	"time"
)

const (
	atOnce time.Duration = 0
	never  time.Duration = math.MaxInt64 // a time that does not come
)

// due is when Tick is to look at a claim: a function of its phase and of what is
// known of it, and of nothing else. Whatever changes any of that schedules the claim.
func due(cl *Claim) time.Duration {
	switch cl.phase {
	case Indeterminate:
		switch {
		case cl.poll:
			return atOnce
		case cl.again == 0:
			return never // who asked has had enough, and gives up next
		}
		return cl.again
	case Waiting:
		if cl.tries {
			return never // its turn comes: see try.go
		}
		return renewal(cl)
	case Ready, Proving:
		return renewal(cl)
	case InUse, Draining:
		return min(cl.ends(), renewal(cl))
	case Idle, Lingering:
		return min(cl.until, renewal(cl))
	case Leaving, Abandoned:
		return cl.again
	}
	return never // Joining, Cancelled, Lost, Replaced, Releasing: an answer, or Unlock, goes on
}

// renewal is when a claim is renewed next; in Waiting without order, tried for.
func renewal(cl *Claim) time.Duration {
	if cl.noRenew && cl.phase.open() {
		return never
	}
	if cl.poll && cl.inflight < attempts {
		return atOnce
	}
	t := never
	switch third := cl.proof + cl.granted/3; {
	case cl.sent > 0:
		// A third of what is left of the last grant at most, or a call that hangs
		// would be the only one before the claim expires; and who waits may hold
		// since, so that a call that hangs must not keep it from being asked.
		t = cl.sent + min(cl.want(cl.sent), cl.granted)/3
		if cl.phase == Waiting {
			t = min(t, cl.sent+cl.waitTTL/3)
		}
	case cl.phase == Lingering:
		if cl.proof+cl.granted < cl.until-100*time.Millisecond {
			t = third // more than one call can ask for
		}
	case cl.phase == Waiting:
		// Without advice it is not next, and there may be hundreds of its kind.
		t = third
		if cl.advised > 0 {
			t = min(cl.proof+cl.waitTTL/3, cl.advised)
		}
	case !cl.raised:
		t = cl.heldAt + min(RaiseAfter, cl.waitTTL/3)
	default:
		t = third
		if cl.listens() {
			t = min(t, cl.proof+Listen)
		}
	}
	if cl.again > 0 {
		t = min(t, cl.again)
	}
	return t
}

// listens: a claim that others of this process wait for, or that is kept for nobody,
// is renewed so often that a lost notification does not let one process hand off or keep it for
// long while another waits.
func (cl *Claim) listens() bool {
	return cl.phase == Idle || cl.callers.current == cl && cl.callers.head != nil
}

// early is how much sooner than planned a claim is renewed so that many share one
// call: a quarter of its wait, so that the leases of a client, whenever they were
// obtained, make four calls a renewal interval, or full ones. Nothing but a renewal is done early.
func (cl *Claim) early() time.Duration {
	if !cl.raised || !cl.phase.in(open|1<<Ready|1<<Proving|1<<Idle) || cl.due != renewal(cl) {
		return 0
	}
	// Always less than the third of a TTL until the next attempt, or Tick would
	// find the same claim due for ever.
	return min(cl.due-cl.proof, cl.granted/3) / 4
}

// schedule puts a claim where Tick finds it when it is due.
func (m *Machine) schedule(cl *Claim) {
	at := never
	if !m.closed {
		at = due(cl)
	}
	m.timers.set(cl, at)
}

// renewNow has a claim renewed, or its Join tried again, as soon as possible. The
// answer of a call that is under way may be older than the reason to ask: it does not
// count as having looked.
func (m *Machine) renewNow(cl *Claim) {
	cl.poll = true
	m.schedule(cl)
}

// pace takes in that a claim was answered, and the advice in it.
func (m *Machine) pace(now time.Duration, cl *Claim, poll time.Duration) {
	cl.sent, cl.again, cl.retries, cl.advised = 0, 0, 0, 0
	if cl.phase != Waiting && !cl.raised {
		cl.poll = false // it is asked about soon anyway: a short hold costs no third call
	}
	if poll > 0 {
		cl.advised = now + poll + time.Millisecond // at the very moment nothing has expired yet
	}
	if cl.phase != Lingering && cl.trustedUntil() <= now {
		// The engine is slower than the TTL asked for: ask for more.
		m.firstTTL = max(m.firstTTL, min(2*m.firstTTL, cl.TTL()))
		cl.poll = true
	}
	m.schedule(cl)
}

// pause puts off what was not answered: again soon, but no sooner than the engine can
// recover from being asked.
func (m *Machine) pause(now time.Duration, cl *Claim) {
	cl.again = now + m.backoff(cl.retries)
	cl.retries++
	m.schedule(cl)
}
