package leasehold

import (
	"fmt"
	"time"

	"leasehold/engine"
)

// reenter decides about a caller whose context holds the name already: whoever
// waited for that hold would wait for itself. It reports whether l is one more
// handle of it now; else the caller joins the line unless there is an error, and
// nothing was changed. Called with mu held.
func (k *core) reenter(l *Lease, key lineKey) (bool, error) {
	now := k.now()
	permits := int32(0)
	for o := l.outer; o != nil; o = o.outer {
		if o.core != k || o.name != l.name || o.hold.count == 0 {
			continue
		}
		cl := o.claim
		k.expire(cl, now)
		switch {
		case cl.lost:
			return false, fmt.Errorf("%w: unlock it before asking again", ErrLost)
		case cl.req.Limit != key.limit:
			return false, fmt.Errorf("%w (%w)", ErrReentry, &engine.LimitError{Name: l.name, Have: cl.req.Limit, Want: key.limit})
		case key.limit == engine.Max && key.units > cl.req.Units:
			return false, ErrUpgrade
		case !l.lock.Reentrant:
			return false, fmt.Errorf("%w; give it a context that does not come from the lease, or choose LockOptions.Reentrant", ErrReentry)
		case key.limit == engine.Max:
			k.countUp(o, l, now)
			return true, nil
		}
		permits += cl.req.Units // a claim of its own each: no sum exceeds the limit
	}
	if permits > 0 && permits > key.limit-key.units {
		return false, fmt.Errorf("%w: it holds %d of %d and asks for %d", ErrReentry, permits, key.limit, key.units)
	}
	return false, nil
}

// countUp makes l one more handle of o's hold.
func (k *core) countUp(o, l *Lease, now time.Duration) {
	cl := o.claim
	l.hold, l.claim, l.token, l.heldAt = o.hold, cl, o.token, now
	l.hold.count++
	cl.add(l)
	k.event(Event{Kind: EventLent, Name: l.name, Token: l.token, Units: cl.req.Units, Limit: cl.req.Limit})
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
