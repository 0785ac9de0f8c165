package leasehold

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
)

// lineKey: callers of one process who agree on all of this share claims.
type lineKey struct {
	name         string
	units, limit int32
	ttl          time.Duration
}

// localLine is who in this process is next for a name. Its callers queue
// behind one claim, which belongs to the line and not to whoever made it:
// while one is in use the next caller gets it at memory speed (lending).
//
// Exclusive and shared callers of a name have lines of their own; between
// those, as between processes, the engine's line decides.
type localLine struct {
	key lineKey

	head, tail *Lease    // first come, first served
	cur        *claim    // what the queue waits for, or lends from; nil: none
	ghost      engine.ID // a claim whose Leave was not answered
	lastErr    error     // of the Join under way
	claims     int32     // claims that still point here
	solo       bool      // one caller's own, not to be found by others
}

const opAcquire = "acquire"

var errWaited = errors.New("waited long enough")

// obtain is every way to a lease. The caller holds what its context says.
func (c *Client) obtain(ctx context.Context, op, name string, units, limit int32) (*Lease, error) {
	outer, _ := ctx.Value(leaseKey{}).(*Lease)
	return c.obtainUnder(ctx, outer, op, name, units, limit)
}

// obtainUnder is obtain for a caller who holds outer, and what that was
// obtained under.
func (c *Client) obtainUnder(ctx context.Context, outer *Lease, op, name string, units, limit int32) (*Lease, error) {
	k := c.core
	if ctx.Err() != nil {
		return nil, wrap(op, name, context.Cause(ctx))
	}
	if err := engine.CheckName(name); err != nil {
		return nil, wrap(op, name, err)
	}
	key := lineKey{name, units, limit, orDefault(c.lock.TTL, k.opts.TTL)}
	if c.lock.TTL != 0 {
		if err := k.checkTTL(key.ttl); err != nil {
			return nil, wrap(op, name, err)
		}
	}
	l := &Lease{core: k, name: name, ctx: ctx, lock: &c.lock, outer: outer}
	l.hold = &l.own
	if c.lock.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.lock.Wait, errWaited)
		defer cancel()
	}
	if c.lock.Wait > 0 || k.opts.Observer != nil {
		l.began = k.now()
	}
	l.ready = k.ready()

	k.mu.Lock()
	if k.closed {
		k.unlock()
		return nil, wrap(op, name, ErrClosed)
	}
	if done, err := k.reenter(l, key); done && op != opAcquire {
		k.unlock()
		if err != nil {
			return nil, wrap(op, name, err)
		}
		return l, nil
	}
	ln, first, err := k.enter(l, key)
	k.unlock()
	if err != nil {
		return nil, k.explain(ctx, op, l, err)
	}
	if first != nil {
		// The claim needs a Join, and this goroutine has nothing better to do:
		// an uncontended lock costs no hop between goroutines. If ctx ends in
		// the middle while others queue for the same claim, the keeper asks
		// again with the same ID.
		k.attempt(ctx, first)
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		if !k.giveUp(ln, l, context.Cause(ctx)) {
			<-l.ready // delivered or failed in the meantime: that counts
		}
	}
	k.readies.Put(l.ready)
	l.ready = nil
	if l.err != nil {
		return nil, k.explain(ctx, op, l, l.err)
	}
	return l, nil
}

// enter finds l its line and puts it at the end. It returns the claim that l
// has to Join, if any. Called with mu held.
func (k *core) enter(l *Lease, key lineKey) (*localLine, *claim, error) {
	nowait := l.lock.Wait < 0
	ln := k.lines[key]
	// What a caller wants for itself, or holds already, keeps it out of the
	// shared line: a holder that queued behind a local claim could wait for a
	// sibling that waits for it, unseen by anybody who looks at the lines.
	special := k.opts.NoLend || !lendable(key.units, key.limit) || !l.lock.lendable()
	own := special || k.holds(l)
	if nowait && !special && ln != nil && ln.head == nil && ln.cur != nil {
		now := k.now()
		cl := ln.cur
		switch {
		case !cl.proven(now):
		case cl.users > 0 && cl.exclusive():
			// Certainly held, by us: no need to ask.
			cl.tellContended()
			return ln, nil, ErrHeld
		case cl.users > 0 && own:
		case cl.fresh(now) && k.mayLend(cl, now):
			// Also to an actor if it is idle: that is no queueing.
			k.give(cl, l, now)
			return ln, nil, nil
		}
	}
	if own || nowait {
		ln = &localLine{key: key, solo: true}
	} else if ln == nil {
		ln = &localLine{key: key}
		k.lines[key] = ln
	}
	ln.push(l)
	if cl := ln.cur; cl != nil && cl.users > 0 {
		if cl.exclusive() {
			cl.tellContended()
			if !cl.listening {
				// A lost note must not let one process lend for long while
				// another waits.
				cl.listening = true
				cl.renewAt = min(cl.renewAt, cl.proof+listen)
				k.schedule(cl)
			}
			return ln, nil, nil // in use; its Unlock goes on from here
		}
	}
	if ln.cur == nil {
		return ln, k.newClaim(ln, nil), nil
	}
	return ln, k.pump(ln, false, k.now()), nil
}

// pump moves the line on as far as it can, and returns a claim that somebody
// has to Join (attempt). Called with mu held, whenever a caller came or a claim
// changed; answered says that the engine just proved the line's claim.
func (k *core) pump(ln *localLine, answered bool, now time.Duration) *claim {
	if ln.head == nil || k.closed {
		return nil
	}
	cl := ln.cur
	if cl == nil {
		return k.newClaim(ln, nil)
	}
	if cl.joining || cl.state != engine.Held || (cl.exclusive() && cl.users > 0) {
		return nil
	}
	// A claim just proven is delivered however little is left of it: with a
	// slow engine there may never be more.
	if !cl.proven(now) || k.needsRaise(cl) || (!answered && !cl.fresh(now)) {
		if cl.inflight == 0 {
			k.renewNow(cl, now)
		}
		return nil // its answer pumps again
	}
	return k.lend(ln, cl, now)
}

// released goes on after the last hold of l's claim ended. It returns what
// Unlock still has to do without the mutex: give the claim up, or prolong it.
func (k *core) released(cl *claim, l *Lease, now time.Duration) rest {
	ln := cl.line
	switch {
	case k.closed:
		return nothing // Close gives it up
	case cl.lost:
		// Whoever held a lease always sends Leave: it frees the room of a
		// marked claim. Unlock's answer is known without waiting for it.
		if cl.users == 0 {
			k.leaveLater(cl, now)
		}
		return nothing
	case cl.users > 0:
		return nothing // other readers
	case cl.lock.MinHold > now-cl.heldAt:
		// The claim's, not l's: l may be a re-entered lease that outlived the
		// one the claim was made for.
		cl.linger, cl.keptTill = true, cl.heldAt+cl.lock.MinHold
		k.take(ln, cl)
		k.schedule(cl)
		return lingerIt
	case ln.cur == cl && ln.head != nil:
		k.join(k.pump(ln, false, now))
		return nothing
	case ln.cur == cl && !ln.solo && k.opts.Keep > 0 && !cl.contended && !cl.spent && !(cl.exclusive() && cl.lends >= 1<<engine.LendBits-1):
		cl.keptTill = now + k.opts.Keep
		cl.renewAt = min(cl.renewAt, cl.proof+listen)
		k.schedule(cl)
		return nothing
	}
	k.take(ln, cl)
	cl.leaving, cl.asking, cl.unlocking = true, true, true
	k.schedule(cl)
	return leaveIt
}

// ready is a channel to wait on. They are pooled, since at a million hand-overs
// a second they are the larger half of the garbage; per client, since one from
// outside a synctest bubble must not get into it.
func (k *core) ready() chan struct{} {
	if ch, ok := k.readies.Get().(chan struct{}); ok {
		return ch
	}
	return make(chan struct{}, 1)
}

func (ln *localLine) push(l *Lease) {
	l.line, l.prev, l.next = ln, ln.tail, nil
	if ln.tail != nil {
		ln.tail.next = l
	} else {
		ln.head = l
	}
	ln.tail = l
}

func (ln *localLine) pop() *Lease {
	l := ln.head
	ln.remove(l)
	return l
}

func (ln *localLine) remove(l *Lease) {
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		ln.head = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	} else {
		ln.tail = l.prev
	}
	l.line, l.prev, l.next = nil, nil, nil
}
