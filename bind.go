package leasehold

import (
	"context"
	"sync"

	"leasehold/internal/claims"
)

// Bind returns a context under both ctx and the lease. It ends with the first of them
// that ends, with its cause. It has the deadline and the values of ctx, and it holds
// the name as Context does, besides the names that ctx holds. Use it for the work of
// one request under a lease, and for the locks of that request:
//
//	lease, err := locks.Lock(ctx, "order:7")
//	...
//	defer lease.Unlock()
//	ctx, cancel := lease.Bind(ctx)
//	defer cancel()
//	inner, err := locks.Lock(ctx, "stock:4") // waits as long as ctx lasts, at most
//
// cancel frees the resources of the context. It does not end the lease.
func (l *Lease) Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	if l.bound == nil {
		l.bound = &bindings{}
		if l.handle.Over() {
			l.bound.end(l.lost)
		}
	}
	return l.bound.bind(ctx, l.handle.Holding())
}

// endContextsLocked ends the contexts that live as long as the lease.
func (l *Lease) endContextsLocked(cause error) {
	if l.cancel != nil {
		l.cancel(cause)
	}
	if l.bound != nil {
		l.bound.end(cause)
	}
}

// bindings are contexts of callers that also end with a lease. The lease ends them one
// by one, since a context has one parent. A goroutine that waits for the lease
// (context.AfterFunc) would end them a moment after it was lost.
type bindings struct {
	mu      sync.Mutex
	cancels map[*context.CancelCauseFunc]struct{}
	over    bool
	cause   error
}

// bind returns a context for a caller who also holds held.
func (b *bindings) bind(ctx context.Context, held *claims.Holding) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, leaseKey{}, held.Under(holding(ctx))))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		cancel(b.cause)
		return ctx, func() {}
	}
	if b.cancels == nil {
		b.cancels = map[*context.CancelCauseFunc]struct{}{}
	}
	b.cancels[&cancel] = struct{}{}
	return ctx, func() {
		cancel(nil)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.cancels, &cancel)
	}
}

// end ends the contexts that were bound, and later ones at once. The first cause
// counts.
func (b *bindings) end(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	b.over, b.cause = true, cause
	for cancel := range b.cancels {
		(*cancel)(cause)
	}
	b.cancels = nil
}

// leaseKey is the key under which a context carries what its owner holds: a
// *claims.Holding.
type leaseKey struct{}

// holding returns what a caller with ctx holds.
func holding(ctx context.Context) *claims.Holding {
	held, _ := ctx.Value(leaseKey{}).(*claims.Holding)
	return held
}
