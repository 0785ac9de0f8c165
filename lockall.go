package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// maxLockAll bounds LockAll, whose names are given up in one call.
const maxLockAll = claims.MaxBatch

// Leases is several names held at once: all of them, or none.
type Leases struct {
	core   *core
	leases []*Lease        // in the order of their names
	held   *claims.Holding // what a caller under them holds
	life   context.Context
	cancel context.CancelCauseFunc
	bound  bindings
}

// LockAll obtains every name exclusively, in the order of their bytes. So callers of
// LockAll never wait for each other in a cycle, whatever order they give. A name given
// twice counts once. If one name cannot be obtained, LockAll gives the others back and
// returns the error of Lock. LockOptions apply to each name: Wait bounds the waiting
// for each. At most 1,000 names.
//
// On an engine with servers the client first asks for all names at once, without waiting.
// So free names cost about one round trip together. It gives back what it got behind the
// first name that is not free, and waits for that one and the rest one by one. For a second
// after that it does not ask for all at once.
func (c *Client) LockAll(ctx context.Context, names ...string) (*Leases, error) {
	return c.lockAll(ctx, names, false)
}

// TryLockAll is to LockAll what TryLock is to Lock.
func (c *Client) TryLockAll(ctx context.Context, names ...string) (*Leases, error) {
	return c.lockAll(ctx, names, true)
}

func (c *Client) lockAll(ctx context.Context, names []string, try bool) (*Leases, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxLockAll {
		return nil, fmt.Errorf("leasehold: lock %d names: LockAll takes at most %d; lock fewer at once", len(names), maxLockAll)
	}
	all := &Leases{core: c.core, leases: make([]*Lease, 0, len(names)), held: holding(ctx)}
	all.life, all.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lost := func(cause error) {
		all.end(cause)
		stop(cause)
	}
	free, err := c.lockFree(wait, all.held, names)
	for i, name := range names {
		var l *Lease
		if i < len(free) {
			l = free[i]
			l.under(all.held)
		} else if err == nil {
			// Under the lease before: this caller is an actor that holds something,
			// and says so in its claim. Losing one ends the waiting for the rest.
			a := lock(name)
			a.try = try
			l, err = c.obtainUnder(wait, all.held, a)
		}
		if l == nil {
			return nil, errors.Join(err, all.unlock(false))
		}
		all.leases = append(all.leases, l)
		all.held = l.handle.Holding()
		l.onLoss(lost)
	}
	all.life = context.WithValue(all.life, leaseKey{}, all.held)
	return all, nil
}

// probePause is how long a client does not ask for all names at once after one was not
// free: for contended names that is work for nothing.
const probePause = time.Second

// lockFree asks for all names at once and waits for none, so free names cost about one
// round trip together. It returns the leases before the first name that it did not get, and
// the error of that one if ctx has ended. It has given back the leases behind it: nobody
// may hold them who waits for an earlier name. Where calls are no round trips nothing is
// gained, and it does nothing.
func (c *Client) lockFree(ctx context.Context, outer *claims.Holding, names []string) ([]*Lease, error) {
	k := c.core
	if len(names) < 2 || k.grants.Scope < engine.ScopeCluster || c.lock.MinHold > 0 { // what is given back would stay held
		return nil, nil
	}
	k.mu.Lock()
	pause := k.now() < k.probeFrom
	k.unlock()
	if pause {
		return nil, nil
	}
	leases, errs := make([]*Lease, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			a := lock(name).once()
			a.probe = true
			leases[i], errs[i] = c.obtainUnder(ctx, outer, a)
		})
	}
	all.Wait()
	n := slices.Index(leases, nil)
	if n < 0 {
		return leases, nil
	}
	k.mu.Lock()
	k.probeFrom = k.now() + probePause
	k.unlock()
	rest := slices.DeleteFunc(leases[n:], func(l *Lease) bool { return l == nil })
	_ = k.unlockAll(false, rest) // nobody was given them: what Unlock says helps nobody
	if !hasEnded(ctx) {
		return leases[:n], nil // the call goes on
	}
	// Also if only its timer is late: another call would not say why.
	if r, early := errors.AsType[refusal](errs[n]); early {
		return leases[:n], r.until(ctx, names[n])
	}
	return leases[:n], errs[n]
}

// refusal is why a probe ended while its context had not. It names no lock: the call goes on.
type refusal struct{ error }

// until is the error of a call whose context has ended since.
func (r refusal) until(ctx context.Context, name string) error {
	<-ctx.Done() // at most its timer is late
	err, cause := r.error, context.Cause(ctx)
	switch {
	case ctx.Err() == context.Canceled:
		err = cause
	case cause != errWaited:
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return wrap("lock", name, err)
}

// under says what else the caller of a lease holds, for callers under the lease.
func (l *Lease) under(outer *claims.Holding) {
	l.core.mu.Lock()
	defer l.core.unlock()
	l.handle.Outer = outer
}

// onLoss has f called when the lease is lost, at once if it is already. f must
// not block or call the Client: it runs with its mutex held.
func (l *Lease) onLoss(f func(error)) {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	if l.lostFunc = f; l.lost != nil {
		f(l.lost)
	}
}

// Leases returns the single leases, in the order of their names.
func (a *Leases) Leases() []*Lease { return slices.Clone(a.leases) }

// Context returns a context that ends when the first of the leases is lost, with its
// cause, and at Unlock. It holds each of the names, as Lease.Context does.
func (a *Leases) Context() context.Context { return a.life }

// Bind is Lease.Bind for all leases: the context ends when the first of them is lost.
func (a *Leases) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return a.bound.bind(ctx, a.held)
}

// Valid reports whether every lease is valid.
func (a *Leases) Valid() bool {
	for _, l := range a.leases {
		if !l.Valid() {
			return false
		}
	}
	return true
}

// Remaining returns the shortest Remaining of the leases, or 0 if there are none.
func (a *Leases) Remaining() (left time.Duration) {
	for i, l := range a.leases {
		if r := l.Remaining(); i == 0 || r < left {
			left = r
		}
	}
	return left
}

// end ends the contexts that live as long as all of the leases.
func (a *Leases) end(cause error) {
	a.cancel(cause)
	a.bound.end(cause)
}

// Unlock ends all leases, the last obtained first, with one call to the engine. The
// error joins what Lease.Unlock returns for each.
func (a *Leases) Unlock() error { return a.unlock(true) }

// unlock may keep the names (Options.IdleTimeout). A LockAll that failed does not keep
// them: the holder of the missing name may want them.
func (a *Leases) unlock(keep bool) error {
	a.end(nil)
	return a.core.unlockAll(keep, a.leases)
}

// unlockAll ends leases, the last one first, with one call to the engine.
func (k *core) unlockAll(keep bool, leases []*Lease) error {
	k.mu.Lock()
	defer k.unlock()
	last := slices.Clone(leases)
	slices.Reverse(last)
	k.unlockLocked(keep, last...)
	var errs []error
	for _, l := range leases {
		if err := l.resultLocked(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
