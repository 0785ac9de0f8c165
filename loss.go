package leasehold

import (
	"time"

	"leasehold/engine"
)

// expire loses a claim in use whose trusted-until, or MaxHold, has come.
func (k *core) expire(cl *claim, now time.Duration) {
	switch {
	case cl.users == 0 || cl.lost:
	case now >= cl.trustedUntil():
		k.lose(cl, ErrLost, now)
	case cl.lock.MaxHold > 0 && now >= cl.heldAt+cl.lock.MaxHold:
		k.lose(cl, ErrMaxHold, now)
	}
}

// lose ends every lease of a claim, for good. The claim itself is given up
// when they are unlocked: until then its holder may still be at work, and what
// the engine keeps of it keeps others out.
func (k *core) lose(cl *claim, cause error, now time.Duration) {
	cl.lost = true
	for l := cl.leases; l != nil; l = l.next {
		k.endLease(l, cause)
	}
	k.schedule(cl)
	ln := cl.line
	k.take(ln, cl)
	k.join(k.pump(ln, false, now))
}

// gone takes in that the engine does not have the claim any more, at least not
// in the life that this client knows.
func (k *core) gone(cl *claim, got engine.Claim, now time.Duration) {
	cause := ErrLost
	if got.Evicted {
		cause = ErrEvicted
	}
	if cl.users > 0 {
		k.lose(cl, cause, now)
		return
	}
	ln := cl.line
	if got.Evicted && !cl.delivered {
		k.failClaim(cl, ErrEvicted)
	}
	k.take(ln, cl)
	if got.State == engine.Gone && !got.Evicted {
		k.drop(cl)
	} else {
		k.leaveLater(cl, now) // marked or made anew: it takes its room until it is left
	}
	k.join(k.pump(ln, false, now))
}
