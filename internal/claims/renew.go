package claims

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"leasehold/engine"
)

// RenewAll has every claim renewed as soon as possible: somebody stepped the
// wall clock, which an engine may go by. That is never a reason to lose.
func (m *Machine) RenewAll(now time.Duration) {
	m.traceInput(now, "renew all", "", 0)
	for _, cl := range m.claims {
		if cl.phase.wanted() {
			m.renewNow(cl)
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
		if cl.due > now && !(n > 0 && cl.due <= now+cl.early()) {
			return
		}
		switch cl.phase {
		case Indeterminate:
			m.askAgain(cl)
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
			m.giveUp(now, cl, Leaving, OK, nil)
		case Waiting:
			if m.cfg.Unordered {
				m.try(cl)
				n-- // its output has a bound of its own
				break
			}
			m.renew(now, cl)
		default: // Ready, Proving
			m.renew(now, cl)
		}
	}
}

// renew asks for one renewal, unless enough are under way.
func (m *Machine) renew(now time.Duration, cl *Claim) {
	want := min(cl.want(now), m.cfg.Longest)
	cl.sent, cl.again = now, 0
	if cl.inflight < attempts || cl.waiter != nil {
		cl.inflight++
		cl.poll = false
		bound := min(want, max(cl.granted, cl.waitTTL))
		if cl.waiter != nil {
			bound = min(bound, ReleaseBound) // its failure ends the Unlock that waits for it
		}
		m.emit(Output{Act: Renew, Claim: cl, Want: want, Bound: bound})
	}
	m.schedule(cl)
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
		} else {
			m.schedule(cl)
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
		m.giveUp(now, cl, Leaving, Unavailable, orMissing(err))
		return
	}
	m.endLingering(cl, s, Unknown, fmt.Errorf("MinHold may end early: %w", orMissing(err)))
	m.pause(now, cl)
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
	m.pace(now, cl, got.PollAfter)
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
