package leasehold

import (
	"time"

	"leasehold/engine"
)

// lendable: such leases may be made of any claim, and leave one as it was.
func (o *LockOptions) lendable() bool {
	return o.MinHold == 0 && o.MaxHold == 0 && !o.NoRenew && !o.Detached
}

// lendable: Lock and RLock share claims; permits are each caller's own, also
// those of the limit Max.
func lendable(units, limit int32) bool {
	return limit == engine.Max && (units == engine.Max || units == 1)
}

// lend delivers what the line's claim may still give, or replaces it.
func (k *core) lend(ln *localLine, cl *claim, now time.Duration) *claim {
	for ln.head != nil {
		if cl.delivered && !k.mayLend(cl, now) {
			if cl.users > 0 {
				// Readers still use it. It ends with the last of them, and
				// takes no new one: who waits behind it must get a turn.
				ln.cur = nil
				return k.newClaim(ln, nil)
			}
			return k.newClaim(ln, cl)
		}
		k.give(cl, ln.pop(), now)
		if cl.exclusive() {
			return nil
		}
	}
	return nil
}

// mayLend decides whether a claim that was used may be used once more, and
// counts it. While another process waits, lending is bounded in number and
// time, so that first come, first served holds between processes up to that.
func (k *core) mayLend(cl *claim, now time.Duration) bool {
	if cl.spent || cl.lends >= 1<<engine.LendBits-1 && cl.exclusive() {
		return false
	}
	if !cl.contended && now-cl.alone < believe {
		return true
	}
	if cl.contendedAt == 0 {
		cl.contendedAt, cl.budget = now, lendBudget
	}
	if cl.budget <= 0 || now-cl.contendedAt >= lendTime {
		cl.spent = true
		return false
	}
	cl.budget--
	return true
}

// give makes l a lease of cl and wakes its caller.
func (k *core) give(cl *claim, l *Lease, now time.Duration) {
	kind := EventHeld
	if cl.delivered {
		kind = EventLent
		if cl.exclusive() {
			cl.lends++
		}
	}
	cl.users++
	if !cl.delivered || cl.keptTill != 0 || cl.due > cl.trustedUntil() {
		// From now on its deadline is somebody's. A claim lent on at once has it
		// on the agenda already.
		if !cl.delivered {
			cl.delivered, cl.heldAt = true, now
		}
		cl.keptTill = 0
		k.schedule(cl)
	}
	l.claim, l.heldAt = cl, now
	l.token = Token(cl.ticket<<engine.LendBits | uint64(cl.lends))
	l.hold.count++
	cl.add(l)
	if k.opts.Observer != nil {
		k.event(Event{Kind: kind, Name: l.name, Token: l.token, Units: cl.req.Units, Limit: cl.req.Limit, Waited: now - l.began})
	}
	l.ready <- struct{}{} // capacity 1, sent once
}
