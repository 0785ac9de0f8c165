package claims

import (
	"slices"
	"sync/atomic"
	"time"

	"leasehold/engine"
)

// Lease is one handle of a held claim. The shell makes it, empty but for Outer
// and Tag; it begins with its Deliver.
type Lease struct {
	Outer *Holding // what the context it was asked with says
	Tag   any      // the shell's

	Token  uint64 // ticket << engine.HandoffBits + handoffs
	HeldAt time.Duration

	machine    *Machine
	claim      *Claim
	hold       *hold  // shared with re-entered leases
	own        hold   // what hold points to unless re-entered
	prev, next *Lease // in claim.leases

	over       atomic.Bool // lost or unlocked: read without the shell's mutex
	lost       Reason      // why it was lost; OK: it was not
	notified   bool        // that somebody waits
	ended      bool        // unlocked or detached
	unlockedAt time.Duration
}

// Holding is what a context says that its owner holds: a lease, and what is held
// besides. Nil: nothing.
type Holding struct {
	Lease *Lease
	Outer *Holding
}

// Holding is what a caller under the lease holds.
func (l *Lease) Holding() *Holding { return &Holding{l, l.Outer} }

// Under is h, and what outer says that h does not: the leases of h are the innermost,
// in their order.
func (h *Holding) Under(outer *Holding) *Holding {
	if h == nil {
		return outer
	}
	if outer = h.Outer.Under(outer); outer.has(h.Lease) {
		return outer
	}
	return &Holding{h.Lease, outer}
}

func (h *Holding) has(l *Lease) bool {
	for ; h != nil; h = h.Outer {
		if h.Lease == l {
			return true
		}
	}
	return false
}

// hold is one caller's hold of a claim, counted up by re-entering.
type hold struct{ count int32 }

// Claim is what it is a lease of.
func (l *Lease) Claim() *Claim { return l.claim }

// Over reports whether it was unlocked or lost. It needs no mutex, as Ends.
func (l *Lease) Over() bool { return l.over.Load() }

// Ends is when it ends unless renewed.
func (l *Lease) Ends() time.Duration { return l.claim.ends() }

// Lost is why it was lost, OK if it was not.
func (l *Lease) Lost() Reason { return l.lost }

// Ended reports whether Unlock or Detach was called.
func (l *Lease) Ended() bool { return l.ended }

// Contended reports whether somebody waits behind it, in this process or
// another.
func (l *Lease) Contended() bool {
	cl := l.claim
	return l.notified || cl.contention.yes || cl.callers.current == cl && cl.callers.head != nil
}

// Holds returns the held claims, innermost first, n at most. A re-entered claim occurs
// once, since the room in an owner is bounded. Claims of another Machine are marked
// (Elsewhere).
func (h *Holding) Holds(m *Machine, n int) (holds []engine.Hold) {
	depth := 0
	for o := h; o != nil && depth < n; o = o.Outer {
		depth++
	}
	if depth > 0 {
		holds = make([]engine.Hold, 0, depth)
	}
	for ; h != nil && len(holds) < n; h = h.Outer {
		var held engine.Hold
		switch l := h.Lease; {
		case l.machine != m && !l.Over(): // read under another mutex: what does not change while it is open
			held = engine.Hold{Name: l.claim.Name(), Ticket: l.Token >> engine.HandoffBits, Elsewhere: true}
		case l.machine == m && l.hold.count > 0 && l.claim.phase != Lost && l.claim.ticket != 0: // a lost one runs out by itself
			held = engine.Hold{Name: l.claim.Name(), Ticket: l.claim.ticket}
		default:
			continue
		}
		if !slices.Contains(holds, held) {
			holds = append(holds, held)
		}
	}
	return holds
}

// open begins a lease.
func (m *Machine) open(now time.Duration, cl *Claim, l *Lease, h *hold) {
	l.machine, l.claim, l.hold, l.HeldAt = m, cl, h, now
	h.count++
	cl.add(l)
}

// Unlock ends a lease for its caller. It is answered by one End, now or when
// the engine has answered. Not twice for one lease (see Ended). The claim may be
// kept for a while (Config.IdleTimeout) if keep says so.
func (m *Machine) Unlock(now time.Duration, l *Lease, keep bool) {
	cl := l.claim
	m.traceInput(now, "unlock", cl.Name(), cl.ticket)
	m.expire(now, cl) // the truth is decided here, before anybody else may hold
	m.close(l)
	l.unlockedAt = now
	if l.hold.count--; l.hold.count > 0 {
		m.end(l, l.lost, nil)
		return
	}
	cl.users--
	if !m.released(now, cl, l, keep) {
		m.end(l, l.lost, nil)
	}
}

// close makes l a lease of nothing.
func (m *Machine) close(l *Lease) {
	l.ended = true
	l.over.Store(true)
	l.claim.remove(l)
}

func (m *Machine) end(l *Lease, why Reason, err error) {
	m.emit(Output{Act: End, Lease: l, Reason: why, Err: err})
}

// released goes on after the hold of l ended. It reports whether the End of l
// waits for the engine.
func (m *Machine) released(now time.Duration, cl *Claim, l *Lease, keep bool) bool {
	q := cl.callers
	switch {
	case m.closed:
		return false // Close gave it up
	case cl.phase == Lost:
		// A client that held a lease always sends Leave: it frees the permits of a
		// marked claim. What Unlock says is known without waiting for it.
		if cl.users == 0 {
			m.giveUp(now, cl, Leaving, OK, nil)
		}
		return false
	case cl.users > 0:
		return false // other readers
	case cl.minHold > now-cl.heldAt:
		// The claim's, not l's: l may be a re-entered lease that outlived the
		// one the claim was made for.
		m.linger(now, cl, l)
		return true
	case q.current == cl && q.head != nil:
		m.to(cl, Proving)
		m.advance(now, q, false)
		return false
	case keep && q.current == cl && !q.solo && m.cfg.IdleTimeout > 0 && !cl.contention.yes && !cl.lastHandoff():
		m.to(cl, Idle)
		cl.until = now + m.cfg.IdleTimeout
		m.schedule(cl)
		return false
	}
	m.giveUp(now, cl, Releasing, OK, nil)
	cl.waiter = l
	m.emit(Output{Act: Leave, Claim: cl, Lease: l})
	return true
}

// linger keeps a claim for the rest of its MinHold. It asks for that in one
// step, so that it stands even if this process exits now. Only what the engine does not
// grant at once takes further steps.
func (m *Machine) linger(now time.Duration, cl *Claim, l *Lease) {
	m.to(cl, Lingering)
	cl.until = cl.heldAt + cl.minHold
	cl.waiter = l
	cl.callers.release(cl)
	m.renew(now, cl)
}

// expire loses a claim in use whose trusted-until, or MaxHold, has come.
func (m *Machine) expire(now time.Duration, cl *Claim) {
	switch {
	case !cl.phase.open():
	case now >= cl.trustedUntil():
		why, err := m.whyExpired(cl)
		m.lose(now, cl, why, err)
	case cl.maxHold > 0 && now >= cl.heldAt+cl.maxHold:
		m.lose(now, cl, MaxHold, nil)
	}
}

// whyExpired says why the time of a claim in use has passed. A machine that is told the
// time asks for renewals long before.
func (m *Machine) whyExpired(cl *Claim) (Reason, error) {
	switch {
	case cl.noRenew:
		return NotRenewed, nil
	case m.down:
		return Expired, m.downErr // also where a retry was due a moment ago, and this is late
	case cl.inflight == 0 && cl.due < cl.trustedUntil():
		return Stopped, nil
	}
	return Expired, nil
}

// Expire is a look at the clock by somebody who uses a lease: what it decides
// is final.
func (m *Machine) Expire(now time.Duration, l *Lease) { m.expire(now, l.claim) }

// lose ends every lease of a claim, for good.
func (m *Machine) lose(now time.Duration, cl *Claim, why Reason, err error) {
	m.to(cl, Lost)
	m.loseLeases(cl, why, err)
	m.schedule(cl)
	cl.callers.release(cl)
	m.advance(now, cl.callers, false)
}

func (m *Machine) loseLeases(cl *Claim, why Reason, err error) {
	for l := cl.leases; l != nil; l = l.next {
		l.lost = why
		l.over.Store(true)
		m.emit(Output{Act: Lose, Lease: l, Reason: why, Err: err})
	}
}

// Detach ends a lease here without giving its claim up, which another process
// goes on with. The shell has looked that it may be: see Detachable.
func (m *Machine) Detach(now time.Duration, l *Lease) {
	cl := l.claim
	m.traceInput(now, "detach", cl.Name(), cl.ticket)
	m.close(l)
	l.hold.count-- // or its context would re-enter what was given away
	cl.users--
	m.giveUp(now, cl, Gone, OK, nil)
}

// Detachable: detached claims have one lease, but for re-entered ones. One with
// MinHold is not given away: the adopter could end it before that.
func (l *Lease) Detachable() (detached, reentered bool) {
	return l.claim.detached && l.claim.minHold == 0, l.hold.count > 1
}

// Adopt goes on with the claim id, of which a Renew that began at s and asked
// for ttl got an answer; l is the lease that will have that token. It is
// answered by Deliver to c, or Fail.
func (m *Machine) Adopt(now, s time.Duration, c *Caller, id engine.ID, token uint64, got engine.Claim) {
	m.traceInput(now, "adopt", c.Name, token>>engine.HandoffBits)
	switch {
	case m.closed:
		m.fail(c, Closed, nil)
		return
	case m.claims[id] != nil:
		m.fail(c, Own, nil) // adopted already
		return
	case got.State != engine.Held && !got.Revoked:
		m.fail(c, Expired, nil)
		return
	}
	q := &callers{key: key{c.Name, c.Permits, c.Limit, c.TTL}, solo: true, claims: 1}
	cl := &Claim{callers: q, id: id, permits: c.Permits, limit: c.Limit, waitTTL: min(FirstTTL, c.TTL), detached: true, serial: m.serial + 1,
		minHold: c.MinHold, maxHold: c.MaxHold, noRenew: c.NoRenew, index: -1, born: s, phase: Ready, raised: true}
	m.serial++
	cl.contention.budget = notCounted
	m.claims[id] = cl
	q.current = cl
	cl.learn(now, s, c.TTL, got)
	cl.ticket, cl.handoffs = token>>engine.HandoffBits, uint16(token&(1<<engine.HandoffBits-1))
	switch {
	case got.Revoked:
		// Its holder was to leave it, and that is now this client.
		m.giveUp(now, cl, Leaving, OK, nil)
		m.fail(c, Revoked, nil)
	case !cl.proven(now):
		m.giveUp(now, cl, Leaving, OK, nil)
		m.fail(c, Expired, nil)
	default:
		m.pace(now, cl, 0)
		m.give(now, cl, c)
	}
}
