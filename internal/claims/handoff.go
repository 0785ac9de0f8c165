package claims

import (
	"time"

	"leasehold/engine"
)

// hand off delivers what the queue's claim may still give, or replaces it.
func (m *Machine) handOff(now time.Duration, q *callers, cl *Claim) {
	for q.head != nil {
		if cl.phase.used() && !m.allowsHandoff(now, cl) {
			if cl.phase == InUse {
				// Readers still use it. It ends with the last of them, and
				// takes no new one: who waits behind it must get a turn.
				m.drain(cl)
				m.join(now, q, nil)
				return
			}
			m.join(now, q, cl)
			return
		}
		m.give(now, cl, q.pop())
		if cl.exclusive() {
			return
		}
	}
}

// drain: readers that use cl finish, and no new one gets it.
func (m *Machine) drain(cl *Claim) {
	m.to(cl, Draining)
	cl.callers.release(cl)
	m.schedule(cl)
}

// allowsHandoff decides whether a claim that was used may be used once more, and
// counts it. While another process waits, local handoff is bounded in number and
// time, so that first come, first served holds between processes up to that.
func (m *Machine) allowsHandoff(now time.Duration, cl *Claim) bool {
	if cl.lastHandoff() {
		return false
	}
	c := &cl.contention
	if !c.yes && now-c.alone < Believe {
		return true
	}
	if c.budget == notCounted {
		c.since, c.budget = now, HandoffBudget
	}
	if c.budget == 0 || now-c.since >= HandoffTime {
		return false
	}
	c.budget--
	return true
}

// lastHandoff: the token has no room for one more handoff.
func (cl *Claim) lastHandoff() bool { return cl.exclusive() && cl.handoffs == 1<<engine.HandoffBits-1 }

// give makes a lease of a claim for a caller.
func (m *Machine) give(now time.Duration, cl *Claim, c *Caller) {
	handedOff := cl.phase.used()
	if !handedOff {
		cl.heldAt = now
	} else if cl.exclusive() {
		cl.handoffs++
	}
	cl.users++
	cl.callers.gone = 0
	if from := cl.phase; from != InUse {
		m.to(cl, InUse)
		if from != Proving || cl.due > cl.trustedUntil() {
			// From now on its deadline is somebody's. A claim handed off at once
			// has it on the timers already.
			m.schedule(cl)
		}
	}
	l := c.Lease
	m.open(now, cl, l, &l.own)
	l.Token = cl.ticket<<engine.HandoffBits | uint64(cl.handoffs)
	m.emit(Output{Act: Deliver, Caller: c, Lease: l, HandedOff: handedOff})
}

// notifyContended tells each holder of a claim that somebody waits behind it.
func (m *Machine) notifyContended(cl *Claim) {
	for l := cl.leases; l != nil; l = l.next {
		if !l.notified {
			l.notified = true
			m.emit(Output{Act: Contend, Lease: l})
		}
	}
}

// contend: another process waits behind a held claim.
func (m *Machine) contend(now time.Duration, cl *Claim) {
	m.notifyContended(cl)
	if cl.phase == Idle {
		m.giveUp(now, cl, Leaving, OK, nil) // kept for nobody while somebody wants it
	}
}
