package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold/engine"
)

// newClaim makes the claim that the line waits for next. Whoever gets it runs
// attempt. With old it takes old's place in one step (Replaces); otherwise that
// of a claim whose Leave was never answered.
func (k *core) newClaim(ln *localLine, old *claim) *claim {
	l := ln.head
	o := l.lock
	cl := &claim{line: ln, lock: o, index: -1, joining: true, asking: true, old: old}
	cl.owner = k.owner(l)
	cl.req = request{
		ID:       engine.NewID(),
		Units:    ln.key.units,
		Limit:    ln.key.limit,
		WaitTTL:  min(k.firstTTL, ln.key.ttl),
		NoWait:   o.Wait < 0,
		Detached: o.Detached || o.MinHold > 0 && k.grants.Detach,
	}
	if old != nil {
		// Neither is renewed until the answer: the engine may have done it.
		cl.req.Replaces = old.req.ID
		old.leaving, old.asking = true, true
		k.schedule(old)
	} else if !cl.req.NoWait {
		cl.req.Replaces = ln.ghost
	}
	ln.cur = cl
	ln.lastErr = nil
	ln.claims++
	k.claims[cl.req.ID] = cl
	if cl.exclusive() && !ln.solo {
		// Local readers must let a local writer through, as they would one of
		// another process; no need to hear it from the engine.
		key := ln.key
		key.units = 1
		if readers := k.lines[key]; readers != nil && readers.cur != nil && readers.cur.delivered {
			readers.cur.spent = true
		}
	}
	return cl
}

// attempt Joins cl. A claim that has to follow it is Joined in the background:
// the caller whose ctx this is may have its lease, or have gone, by then.
func (k *core) attempt(ctx context.Context, cl *claim) {
	s := k.now() // before the request is written: trust counts from there
	call, cancel := context.WithTimeout(ctx, cl.req.WaitTTL)
	defer cancel()
	got, err := k.eng.Join(call, cl.req.full(cl.name(), cl.owner))
	k.mu.Lock()
	defer k.unlock()
	k.join(k.joined(cl, s, got, err, over(ctx)))
}

// over reports whether ctx has ended. Its deadline counts by the clock: an
// engine that goes by the deadline itself answers at that very moment, when the
// timer of ctx may not have fired yet. The caller's own time that is up must
// not look like a slow engine.
func over(ctx context.Context) bool {
	at, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(at)
}

// join runs attempt in the background, if there is anything to Join. Called
// with mu held.
func (k *core) join(cl *claim) {
	if cl != nil {
		k.spawn(func() { k.attempt(k.life, cl) })
	}
}

// joined takes in the answer of a Join that began at s. Called with mu held.
func (k *core) joined(cl *claim, s time.Duration, got engine.Claim, err error, cancelled bool) *claim {
	ln := cl.line
	cl.asking = false
	if k.closed {
		return nil // Close has left it, or the engine's Close does
	}
	if err == nil || !cancelled {
		k.heard(err)
	}
	switch {
	case errors.Is(err, engine.ErrRefused):
		// Final, nothing left behind; what it would have replaced still stands.
		k.failClaim(cl, err)
		if cl.old != nil {
			k.leaveLater(cl.old, k.now())
		}
		k.drop(cl)
		return nil
	case err != nil:
		k.unclear(cl, err, cancelled)
		return nil
	}
	ln.lastErr = nil
	k.replaced(cl)
	cl.joining, cl.owner = false, nil
	cl.born = s
	if cl.abandoned || cl.evicted || got.State == engine.Gone {
		switch {
		case cl.req.NoWait:
			k.failClaim(cl, ErrHeld)
		case cl.evicted || got.Evicted:
			k.failClaim(cl, ErrEvicted)
		}
		if got.State == engine.Gone && !got.Evicted {
			k.drop(cl)
		} else {
			k.leaveLater(cl, k.now())
		}
		return k.pump(ln, false, k.now()) // expired on the way: again, silently
	}
	cl.learn(s, cl.req.WaitTTL, got)
	cl.raised = cl.state == engine.Held && cl.req.WaitTTL == cl.ttl()
	now := k.now()
	if now-s < k.firstTTL/8 {
		k.firstTTL = max(firstTTL, k.firstTTL/2) // as fast as ever again
	}
	k.pace(cl, s, now, got.Look)
	if cl.req.NoWait && cl.proven(now) && k.adopt(cl) {
		ln = cl.line
	}
	if cl.contended {
		k.contend(cl, cl.heard)
	}
	return k.pump(ln, true, now)
}

// unclear: the Join may or may not have arrived.
func (k *core) unclear(cl *claim, err error, cancelled bool) {
	ln := cl.line
	now := k.now()
	if cl.abandoned || cl.req.NoWait || k.opts.FailFast && !cancelled {
		k.failClaim(cl, fmt.Errorf("%w: %w", ErrUnavailable, err))
		if cl.old != nil {
			k.leaveLater(cl.old, now)
		}
		k.leaveLater(cl, now)
		return
	}
	if cancelled {
		// The caller whose goroutine asked has had enough and is on its way to
		// giveUp, which abandons the claim or has it asked for again.
		cl.renewAt = never
		if ln.head != ln.tail {
			cl.renewAt = now
		}
	} else {
		ln.lastErr = err
		cl.renewAt = now + backoff(int(cl.retries))
		cl.retries++
		if errors.Is(err, context.DeadlineExceeded) {
			// No answer in the time asked for: ask for more, which also gives the
			// next attempt more time (an engine slower than WaitTTL).
			cl.req.WaitTTL = min(2*cl.req.WaitTTL, cl.ttl())
			k.firstTTL = max(k.firstTTL, cl.req.WaitTTL)
		}
	}
	k.schedule(cl)
}

// replaced: the answered Join of cl has left what it replaced.
func (k *core) replaced(cl *claim) {
	if cl.old != nil {
		k.drop(cl.old)
		cl.old = nil
		return
	}
	// A doubtful ghost may still arrive: it goes on being left.
	if ghost := k.claims[cl.req.Replaces]; ghost != nil && ghost.leaving && !ghost.doubtful {
		k.drop(ghost)
	}
	if cl.req.Replaces == cl.line.ghost {
		cl.line.ghost = engine.ID{}
	}
}

// adopt lets local callers share what a NoWait caller got for itself.
func (k *core) adopt(cl *claim) bool {
	if k.opts.NoLend || !lendable(cl.req.Limit) || !cl.lock.lendable() {
		return false
	}
	solo := cl.line
	l := solo.head
	if l == nil || k.holds(l) {
		return false
	}
	ln := k.lines[solo.key]
	if ln == nil {
		ln = &localLine{key: solo.key}
		k.lines[solo.key] = ln
	} else if ln.cur != nil || ln.head != nil {
		return false
	}
	solo.remove(l)
	ln.push(l)
	solo.cur, ln.cur, cl.line = nil, cl, ln
	solo.claims--
	ln.claims++
	return true
}

// pace decides when a claim that was just answered is looked at next.
func (k *core) pace(cl *claim, s, now time.Duration, look time.Duration) {
	switch {
	case cl.trustedUntil() <= now:
		// The engine is slower than the TTL asked for: ask for more.
		k.firstTTL = max(k.firstTTL, min(2*k.firstTTL, max(k.opts.TTL, cl.ttl())))
		cl.renewAt = now
	case cl.state == engine.Held && !cl.raised:
		cl.renewAt = now + min(raiseAfter, cl.req.WaitTTL/3)
	case cl.look:
		cl.renewAt = now
	case cl.state == engine.Held:
		cl.renewAt = s + cl.granted/3
		if cl.listening = cl.line.head != nil || cl.keptTill != 0; cl.listening {
			cl.renewAt = min(cl.renewAt, s+listen)
		}
	default:
		cl.renewAt = s + cl.req.WaitTTL/3
		if look > 0 {
			// Just after, since at the very moment nothing has expired yet.
			cl.renewAt = min(cl.renewAt, now+look+time.Millisecond)
		}
	}
	cl.retries = 0
	k.schedule(cl)
}

// abandon: the last caller who waited for it is gone.
func (k *core) abandon(cl *claim) {
	cl.abandoned = true
	if cl.joining && cl.asking {
		return // joined leaves it: a Leave that overtook the Join would miss it
	}
	now := k.now()
	if cl.old != nil {
		k.leaveLater(cl.old, now)
	}
	k.leaveLater(cl, now)
}

// leaveLater gives a claim up in the background, again and again until the
// engine answers or the claim must have expired.
func (k *core) leaveLater(cl *claim, now time.Duration) {
	if cl.dropped || cl.leaving && !cl.asking {
		return
	}
	k.take(cl.line, cl)
	cl.doubtful = cl.joining
	cl.joining, cl.asking, cl.leaving = false, false, true
	cl.retries, cl.renewAt = 0, now
	cl.leaveEnd = now + max(cl.ttl(), cl.granted)
	if cl.doubtful {
		cl.leaveEnd = now + 2*cl.req.WaitTTL // later it is not worth a request any more
	}
	k.schedule(cl)
}

// leaveNow gives the claims of leases up in one call and records what each
// Unlock has to report.
func (k *core) leaveNow(leases ...*Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseBound)
	defer cancel()
	query := make([]engine.Claim, len(leases))
	for i, l := range leases {
		query[i] = engine.Claim{Name: l.name, ID: l.claim.req.ID}
	}
	got, err := k.eng.Leave(ctx, query)
	k.mu.Lock()
	defer k.unlock()
	k.heard(err)
	for i, l := range leases {
		l.claim.unlocking = false
		k.finish(l, k.left(l.claim, i, got, err))
	}
}

// left takes in what Leave found of one claim, or did not. It is usually the
// i-th of what it was asked.
func (k *core) left(cl *claim, i int, got []engine.Claim, err error) error {
	if i >= len(got) || got[i].ID != cl.req.ID {
		i = slices.IndexFunc(got, func(c engine.Claim) bool { return c.ID == cl.req.ID })
	}
	if i >= 0 {
		k.drop(cl)
		switch {
		case got[i].State == engine.Held:
			return nil
		case got[i].Evicted:
			return ErrEvicted
		}
		return fmt.Errorf("%w: the engine had no such claim any more", ErrLost)
	}
	if !cl.dropped && !k.closed {
		cl.line.ghost = cl.req.ID
		k.leaveLater(cl, k.now())
		cl.renewAt += backoff(0)
		k.schedule(cl)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, orMissing(err))
}

// orMissing is why nothing was learned of a claim.
func orMissing(err error) error {
	if err == nil {
		return errors.New("the engine's answer leaves it out")
	}
	return err
}

// lingerOn keeps a lease's claim for the rest of its MinHold. It asks for that
// in one step, so that it stands even if this process exits now.
func (k *core) lingerOn(l *Lease) {
	cl := l.claim
	ctx, cancel := context.WithTimeout(context.Background(), releaseBound)
	defer cancel()
	k.mu.Lock()
	s := k.now()
	want := cl.want(s)
	k.unlock()
	got, err := k.eng.Renew(ctx, []engine.Renewal{{Name: cl.name(), ID: cl.req.ID, Want: want}})
	k.mu.Lock()
	defer k.unlock()
	k.heard(err)
	k.finish(l, k.lingered(cl, s, want, got, err))
}

// lingered takes in the answer to a call that began at s. Called with mu held.
func (k *core) lingered(cl *claim, s, asked time.Duration, got []engine.Claim, err error) error {
	if cl.leaving || cl.dropped {
		return nil // MinHold passed meanwhile: the keeper gives it up
	}
	i := slices.IndexFunc(got, func(c engine.Claim) bool { return c.ID == cl.req.ID })
	switch {
	case i < 0:
		k.renewNow(cl, k.now())
		return fmt.Errorf("%w (MinHold may end early): %w", ErrUnknown, orMissing(err))
	case got[i].State == engine.Gone:
		k.drop(cl)
		return ErrLost
	}
	k.lingers(cl, s, min(asked, got[i].TTL))
	return nil
}

// lingers decides when a claim kept for MinHold, and granted that much from s on,
// needs another renewal.
func (k *core) lingers(cl *claim, s, granted time.Duration) {
	cl.renewAt = never
	if s+granted < cl.keptTill-100*time.Millisecond {
		cl.renewAt = s + granted/3
	}
	k.schedule(cl)
}

// take makes the line forget cl as its current claim.
func (k *core) take(ln *localLine, cl *claim) {
	if ln.cur == cl {
		ln.cur = nil
	}
}

// drop forgets a claim that is certainly gone, and its line with the last one.
func (k *core) drop(cl *claim) {
	if cl.dropped {
		return
	}
	cl.dropped = true
	k.due.remove(cl)
	delete(k.claims, cl.req.ID)
	ln := cl.line
	k.take(ln, cl)
	if ln.ghost == cl.req.ID {
		ln.ghost = engine.ID{}
	}
	if ln.claims--; ln.claims == 0 && ln.head == nil && k.lines[ln.key] == ln {
		delete(k.lines, ln.key)
	}
}

// backoff is the pause before asking an engine again that did not answer:
// 50 ms doubled up to 1 s, and up to half of that by chance, so that many
// clients do not come back at the same moment.
func backoff(retries int) time.Duration {
	d := min(50*time.Millisecond<<min(retries, 5), time.Second)
	return d/2 + rand.N(d/2)
}
