package claims

import (
	"time"

	"leasehold/engine"
)

// lend delivers what the queue's claim may still give, or replaces it.
func (m *Machine) lend(now time.Duration, q *queue, cl *Claim) {
	for q.head != nil {
		if cl.phase.used() && !m.mayLend(now, cl) {
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
	cl.queue.release(cl)
	m.schedule(cl)
}

// mayLend decides whether a claim that was used may be used once more, and
// counts it. While another process waits, lending is bounded in number and
// time, so that first come, first served holds between processes up to that.
func (m *Machine) mayLend(now time.Duration, cl *Claim) bool {
	if cl.lastLend() {
		return false
	}
	c := &cl.contention
	if !c.yes && now-c.alone < Believe {
		return true
	}
	if c.budget == notCounted {
		c.since, c.budget = now, LendBudget
	}
	if c.budget == 0 || now-c.since >= LendTime {
		return false
	}
	c.budget--
	return true
}

// lastLend: the token has no room for one more lend.
func (cl *Claim) lastLend() bool { return cl.exclusive() && cl.lends == 1<<engine.LendBits-1 }

// give makes a lease of a claim for a caller.
func (m *Machine) give(now time.Duration, cl *Claim, c *Caller) {
	lent := cl.phase.used()
	if !lent {
		cl.heldAt = now
	} else if cl.exclusive() {
		cl.lends++
	}
	cl.users++
	cl.queue.gone = 0
	if from := cl.phase; from != InUse {
		m.to(cl, InUse)
		if from != Idle || cl.due > cl.trustedUntil() {
			// From now on its deadline is somebody's. A claim lent on at once
			// has it on the agenda already.
			m.schedule(cl)
		}
	}
	l := c.Lease
	m.open(now, cl, l, &l.own)
	l.Token = cl.ticket<<engine.LendBits | uint64(cl.lends)
	m.emit(Output{Act: Deliver, Caller: c, Lease: l, Lent: lent})
}

// tellContended tells each holder of a claim that somebody waits behind it.
func (m *Machine) tellContended(cl *Claim) {
	for l := cl.leases; l != nil; l = l.next {
		if !l.told {
			l.told = true
			m.emit(Output{Act: Contend, Lease: l})
		}
	}
}

// contend: another process waits behind a held claim.
func (m *Machine) contend(now time.Duration, cl *Claim) {
	m.tellContended(cl)
	if cl.phase == Kept {
		m.leaveLater(now, cl) // kept for nobody while somebody wants it
	}
}
