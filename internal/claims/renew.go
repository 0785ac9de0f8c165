package claims

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"leasehold/engine"
)

// never is a time that does not come.
const never time.Duration = math.MaxInt64

// pace decides when a claim that was just answered is looked at next.
func (m *Machine) pace(now time.Duration, cl *Claim, s, poll time.Duration) {
	switch {
	case cl.phase == Lingering:
		cl.next = never
		if s+cl.granted < cl.until-100*time.Millisecond {
			cl.next = s + cl.granted/3 // more than one call can ask for
		}
	case cl.trustedUntil() <= now:
		// The engine is slower than the TTL asked for: ask for more.
		m.firstTTL = max(m.firstTTL, min(2*m.firstTTL, cl.TTL()))
		cl.next = now
	case cl.phase != Waiting && !cl.raised:
		cl.next = now + min(RaiseAfter, cl.waitTTL/3)
	case cl.poll:
		cl.next = now
	case cl.phase == Waiting:
		// Without advice it is not next, and there may be hundreds of its kind.
		cl.next = s + cl.granted/3
		if poll > 0 {
			// Just after, since at the very moment nothing has expired yet.
			cl.next = min(s+cl.waitTTL/3, now+poll+time.Millisecond)
		}
	default:
		cl.next = s + cl.granted/3
		if cl.callers.head != nil || cl.phase == Idle {
			cl.next = min(cl.next, s+Listen)
		}
	}
	cl.retries = 0
	m.schedule(cl)
}

// listen has a claim that others of this process wait for, or that is kept for
// nobody, renewed so often that a lost notification does not let one process hand off or
// keep it for long while another waits.
func (m *Machine) listen(cl *Claim) {
	if at := cl.proof + Listen; at < cl.next {
		cl.next = at
		m.schedule(cl)
	}
}

// schedule puts a claim where Tick finds it next: after every change of its
// phase or its times.
func (m *Machine) schedule(cl *Claim) {
	due := never
	switch cl.phase {
	case Joining, Cancelled, Lost, Replaced, Releasing: // an answer, or Unlock, goes on
	case Indeterminate, Waiting, Ready, Proving, Leaving, Abandoned:
		due = cl.next
	case InUse, Draining:
		if due = cl.ends(); !cl.noRenew {
			due = min(due, cl.next)
		}
	case Idle, Lingering:
		due = min(cl.next, cl.until)
	}
	if m.closed {
		due = never
	}
	m.timers.set(cl, due)
}

// renewNow has a claim renewed, or its Join tried again, as soon as possible. The
// answer of a call that is under way may be older than the reason to ask: it
// does not count as having looked (see pace).
func (m *Machine) renewNow(now time.Duration, cl *Claim) {
	cl.next, cl.poll = now, true
	m.schedule(cl)
}

// RenewAll has every claim renewed as soon as possible: somebody stepped the
// wall clock, which an engine may go by. That is never a reason to lose.
func (m *Machine) RenewAll(now time.Duration) {
	m.traceInput(now, "renew all", "", 0)
	for _, cl := range m.claims {
		if cl.phase.wanted() {
			m.renewNow(now, cl)
		}
	}
}

// Tick does what is due. It may leave some of it to the next call (see Due), so
// that no output is longer than MaxTick by far.
func (m *Machine) Tick(now time.Duration) {
	m.traceInput(now, "tick", "", 0)
	for n := 0; n < MaxTick && len(m.timers) > 0; n++ {
		cl := m.timers[0]
		// Nothing is done early for itself, only beside what is due.
		if cl.due > now && !(n > 0 && cl.due == cl.next && cl.due <= now+cl.early()) {
			return
		}
		switch cl.phase {
		case Indeterminate:
			m.to(cl, Joining)
			cl.poll = false
			m.schedule(cl)
			m.ask(cl)
		case Leaving, Abandoned:
			m.leaveAgain(now, cl)
		case InUse, Draining:
			if m.expire(now, cl); cl.phase != Lost {
				m.renew(now, cl)
			}
		case Idle, Lingering:
			if now < cl.until {
				m.renew(now, cl)
				break
			}
			m.endLingering(cl, never, OK, nil) // kept to the end, whatever was answered
			m.leaveLater(now, cl)
		default: // Waiting, Ready, Proving
			m.renew(now, cl)
		}
	}
}

// early is how much sooner than planned a claim is renewed so that many share
// one call: a quarter of its wait, so that the leases of a client, whenever they
// were obtained, make four calls a renewal interval, or full ones.
func (cl *Claim) early() time.Duration {
	if !cl.raised || !(cl.phase.open() || cl.phase == Ready || cl.phase == Proving || cl.phase == Idle) {
		return 0
	}
	// Always less than the third of a TTL until the next attempt, or Tick would
	// find the same claim due for ever.
	return min(cl.next-cl.proof, cl.granted/3) / 4
}

// renew asks for one renewal, unless enough are under way.
func (m *Machine) renew(now time.Duration, cl *Claim) {
	want := cl.want(now)
	// A third of what is left of the last grant at most, or a call that hangs
	// would be the only one before the claim expires; and who waits may hold
	// since, so that a call that hangs must not keep it from being asked.
	cl.next = now + min(want, cl.granted)/3
	if cl.phase == Waiting {
		cl.next = min(cl.next, now+cl.waitTTL/3)
	}
	m.schedule(cl)
	if cl.inflight < attempts || cl.waiter != nil {
		cl.inflight++
		cl.poll = false
		bound := min(want, max(cl.granted, cl.waitTTL))
		if cl.waiter != nil {
			bound = min(bound, ReleaseBound) // its failure ends the Unlock that waits for it
		}
		m.emit(Output{Act: Renew, Claim: cl, Want: want, Bound: bound})
	}
}

// Renewed is the answer of one Renew that began at s.
func (m *Machine) Renewed(now, s time.Duration, asked []engine.Renewal, got []engine.Claim, err error) {
	m.traceInput(now, "renewed", "", 0)
	m.answered(now, err)
	for i, r := range asked {
		cl := m.claims[r.ID]
		if cl == nil || s < cl.born || cl.inflight == 0 {
			// The claim was detached, and may be back by Adopt: this is the
			// answer of a call of before, which this claim has not counted. Where
			// the clock did not move in between, only the count tells.
			continue
		}
		cl.inflight--
		if i := find(got, i, r.ID); i >= 0 {
			m.renewed(now, cl, s, r.Want, got[i])
		} else if cl.proof <= s && cl.phase.wanted() {
			m.unanswered(now, cl, s, err)
		}
	}
}

// find is where id's answer is: usually where it was asked for.
func find(got []engine.Claim, i int, id engine.ID) int {
	if i < len(got) && got[i].ID == id {
		return i
	}
	return slices.IndexFunc(got, func(c engine.Claim) bool { return c.ID == id })
}

// unanswered: nothing was learned from a Renew.
func (m *Machine) unanswered(now time.Duration, cl *Claim, s time.Duration, err error) {
	if cl.noWait && cl.phase == Ready {
		// One bounded try: it does not wait for the engine to come back.
		m.failClaim(cl, Unavailable, orMissing(err))
		m.leaveLater(now, cl)
		return
	}
	m.endLingering(cl, s, Unknown, fmt.Errorf("MinHold may end early: %w", orMissing(err)))
	// Again soon, but no sooner than the engine can recover from being asked.
	cl.next = min(cl.next, now+m.backoff(cl.retries))
	cl.retries++
	m.schedule(cl)
}

// endLingering answers the Unlock that waits for MinHold to be granted: by a
// Renew that began at s, after it.
func (m *Machine) endLingering(cl *Claim, s time.Duration, why Reason, err error) {
	if l := cl.waiter; cl.phase == Lingering && l != nil && s >= l.unlockedAt {
		cl.waiter = nil
		m.end(l, why, err)
	}
}

// orMissing is why nothing was learned of a claim.
func orMissing(err error) error {
	if err == nil {
		return errors.New("the engine's answer leaves it out")
	}
	return err
}

// renewed takes in one claim's answer.
func (m *Machine) renewed(now time.Duration, cl *Claim, s, want time.Duration, got engine.Claim) {
	if !cl.phase.wanted() || cl.stale(got.Ticket) {
		return
	}
	// A lease whose time was up before the answer came has ended, whatever the
	// answer says: its holder may have been told so already.
	if m.expire(now, cl); cl.phase == Lost {
		return
	}
	anew := got.Ticket > cl.ticket || got.State == engine.Waiting && s > cl.heldAt
	if got.State == engine.Gone || cl.phase.used() && anew {
		// A claim that was made anew is not the one the lease was made of. (An
		// answer that it waits may be older than the notification that it holds, unless
		// the call began after that.)
		m.gone(now, cl, got)
		return
	}
	if cl.phase == Ready && anew && got.State == engine.Waiting {
		// Its life in which it was held ended before a lease was made of it.
		m.to(cl, Waiting)
		cl.raised = false
	}
	cl.learn(now, s, want, got)
	cl.callers.gone = 0
	if got.State == engine.Held {
		if cl.phase == Waiting {
			m.ready(now, cl)
		}
		cl.raised = cl.raised || want >= cl.TTL()
	}
	m.pace(now, cl, s, got.PollAfter)
	m.endLingering(cl, s, OK, nil)
	if cl.contention.yes {
		m.contend(now, cl)
	}
	if m.cfg.Observed && cl.phase.open() {
		for l := cl.leases; l != nil; l = l.next {
			m.emit(Output{Act: Extend, Lease: l})
		}
	}
	m.advance(now, cl.callers, true)
}

// gone: the engine does not have the claim any more, at least not in the life
// that this client knows.
func (m *Machine) gone(now time.Duration, cl *Claim, got engine.Claim) {
	why := Expired
	if got.Revoked {
		why = Revoked
	}
	if cl.phase.open() {
		m.lose(now, cl, why)
		return
	}
	q := cl.callers
	if idle := min(now, cl.trustedUntil()) >= cl.until; cl.phase == Lingering && why == Expired && idle {
		why = OK // it expired after its MinHold, and this was heard late
	}
	m.endLingering(cl, never, why, nil)
	if got.Revoked && !cl.phase.used() {
		m.failClaim(cl, Revoked, nil)
	} else if !cl.phase.used() {
		q.again(cl)
	}
	q.release(cl)
	if got.State == engine.Gone && !got.Revoked {
		m.forget(cl)
	} else {
		m.leaveLater(now, cl) // marked or made anew: it takes its room until it is left
	}
	m.advance(now, q, false)
}
