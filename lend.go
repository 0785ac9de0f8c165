package leasehold

import (
	"context"
	"time"

	"leasehold/engine"
)

// lendable: such leases may be made of any claim, and leave one as it was.
func (o *LockOptions) lendable() bool {
	return o.MinHold == 0 && o.MaxHold == 0 && !o.NoRenew && !o.Detached
}

// lendable: Lock and RLock share claims; permits are each caller's own.
func lendable(limit int32) bool { return limit == engine.Max }

// giveBackOtherMode gives back what this client keeps of the name for nobody in
// the other mode, shared or exclusive: an engine that is asked once and not to
// wait (key) would be refused by it.
func (k *core) giveBackOtherMode(ctx context.Context, key lineKey) {
	if !lendable(key.limit) {
		return
	}
	switch key.units {
	case 1:
		key.units = engine.Max
	default:
		key.units = 1
	}
	k.mu.Lock()
	ln := k.lines[key]
	if ln == nil || ln.cur == nil || ln.cur.keptTill == 0 || ln.head != nil || k.closed {
		k.unlock()
		return
	}
	cl := ln.cur
	k.take(ln, cl)
	cl.leaving, cl.asking = true, true
	k.schedule(cl)
	k.unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	got, err := k.eng.Leave(ctx, []engine.Claim{{Name: key.name, ID: cl.req.ID}})
	k.mu.Lock()
	defer k.unlock()
	k.heard(err)
	_ = k.left(cl, 0, got, err) // what is unclear is left again
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
	k.answer(l)
}
