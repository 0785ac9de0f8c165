package leasehold

import (
	"leasehold/engine"
)

// reenter answers l if its context holds the name already. Called with mu
// held; done means that l is either a lease now or refused with err.
//
// Only exclusive and shared leases re-enter: two permits of a semaphore are
// two permits.
func (k *core) reenter(l *Lease, key lineKey) (done bool, err error) {
	if key.limit != engine.Max || key.units != engine.Max && key.units != 1 {
		return false, nil
	}
	for o := l.outer; o != nil; o = o.outer {
		if o.core != k || o.name != l.name || o.hold.count == 0 || o.claim.lost || o.claim.req.Limit != engine.Max {
			continue
		}
		cl := o.claim
		if key.units == engine.Max && cl.req.Units != engine.Max {
			return true, ErrUpgrade
		}
		now := k.now()
		k.expire(cl, now)
		if cl.lost {
			return true, ErrLost
		}
		l.hold, l.claim, l.token, l.heldAt = o.hold, cl, o.token, now
		l.hold.count++
		cl.add(l)
		k.event(Event{Kind: EventLent, Name: l.name, Token: l.token, Units: cl.req.Units, Limit: cl.req.Limit})
		k.readies.Put(l.ready)
		l.ready = nil
		return true, nil
	}
	return false, nil
}

// holds reports whether l's caller holds anything of this client: then it is
// an actor that queues for itself. Called with mu held.
func (k *core) holds(l *Lease) bool {
	for o := l.outer; o != nil; o = o.outer {
		if o.core == k && o.hold.count > 0 {
			return true
		}
	}
	return false
}

// owner is what others see of the claim that l is about to make, with what its
// caller holds already. Holds that do not fit engine.MaxOwner are left out, the
// outermost first: people read the rest, and a search for deadlocks treats a
// missing edge as "not a deadlock".
func (k *core) owner(l *Lease) *engine.Owner {
	label := l.lock.Label
	if label == "" {
		label = k.opts.Label
	}
	o := &engine.Owner{Host: k.host, PID: k.pid, Label: label, Since: k.wall()}
	n := 0
	for u := l.outer; u != nil && n < engine.MaxOwner/32; u = u.outer {
		n++
	}
	if n > 0 {
		o.Holds = make([]engine.Hold, 0, n)
	}
	for u := l.outer; u != nil && len(o.Holds) < engine.MaxOwner/32; u = u.outer {
		if u.core == k && u.hold.count > 0 && u.claim.ticket != 0 {
			o.Holds = append(o.Holds, engine.Hold{Name: u.name, Ticket: u.claim.ticket})
		}
	}
	for len(o.Holds) > 0 && !o.Fits() {
		o.Holds = o.Holds[:len(o.Holds)-1]
	}
	return o
}
