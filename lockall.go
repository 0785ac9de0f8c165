package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// maxLockAll bounds LockAll, whose names are given up in one call.
const maxLockAll = claims.MaxBatch

// Leases is several names held at once: all of them, or none.
type Leases struct {
	core   *core
	leases []*Lease // in the order of their names
	life   context.Context
	cancel context.CancelCauseFunc
}

// LockAll obtains every name exclusively, in the order of their bytes whatever
// the order given, so that callers of LockAll never wait for each other in a
// cycle. A name given twice counts once. If one cannot be had, what was had is
// given up again and the error is that of Lock. LockOptions apply to each name:
// Wait bounds the waiting for each. At most 1,000 names.
func (c *Client) LockAll(ctx context.Context, names ...string) (*Leases, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > maxLockAll {
		return nil, fmt.Errorf("leasehold: LockAll of %d names: at most %d", len(names), maxLockAll)
	}
	all := &Leases{core: c.core, leases: make([]*Lease, 0, len(names))}
	all.life, all.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	last, _ := ctx.Value(leaseKey{}).(*Lease)
	lost := func(cause error) {
		all.cancel(cause)
		stop(cause)
	}
	for _, name := range names {
		// Under the lease before: this caller is an actor that holds something,
		// and says so in its claim. Losing one ends the waiting for the rest.
		l, err := c.obtainUnder(wait, last, "lock", name, engine.Max, engine.Max, false)
		if err != nil {
			return nil, errors.Join(err, all.unlock(false))
		}
		all.leases = append(all.leases, l)
		last = l
		l.onLoss(lost)
	}
	all.life = context.WithValue(all.life, leaseKey{}, last)
	return all, nil
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

// Leases are the single leases, in the order of their names.
func (a *Leases) Leases() []*Lease { return slices.Clone(a.leases) }

// Tokens are the fencing tokens by name.
func (a *Leases) Tokens() map[string]Token {
	m := make(map[string]Token, len(a.leases))
	for _, l := range a.leases {
		m[l.name] = l.token
	}
	return m
}

// Context ends when the first of the leases is lost, with its cause, and at
// Unlock. It holds each of the names, as Lease.Context says.
func (a *Leases) Context() context.Context { return a.life }

// Valid reports whether every one of them is.
func (a *Leases) Valid() bool {
	for _, l := range a.leases {
		if !l.Valid() {
			return false
		}
	}
	return true
}

// Remaining is the shortest Remaining; of no names it is 0.
func (a *Leases) Remaining() (left time.Duration) {
	for i, l := range a.leases {
		if r := l.Remaining(); i == 0 || r < left {
			left = r
		}
	}
	return left
}

// Unlock ends all leases, the last obtained first, with one call to the engine
// for all. The error joins what Lease.Unlock says of each.
func (a *Leases) Unlock() error { return a.unlock(true) }

// unlock may keep the names (Options.IdleTimeout) or not: those of a LockAll that failed
// are not worth keeping, least of all from the one who holds the missing one.
func (a *Leases) unlock(keep bool) error {
	a.cancel(nil)
	k := a.core
	k.mu.Lock()
	defer k.unlock()
	last := slices.Clone(a.leases)
	slices.Reverse(last)
	k.unlockLocked(keep, last...)
	var errs []error
	for _, l := range a.leases {
		if err := l.resultLocked(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
