package redissonlock

import (
	"context"
	"errors"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Renew implements [engine.Engine]: of a claim that waits it tries again.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	b := renewals{e: e, out: make([]engine.Claim, 0, len(rs))}
	var held, waits []engine.Renewal
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			b.notification(err)
			continue
		}
		if e.longest > 0 {
			r.Want = min(r.Want, e.longest)
		}
		if w, ok := e.waiters.get(r.ID); ok && !w.left {
			waits = append(waits, r)
		} else {
			held = append(held, r)
		}
	}
	b.extend(ctx, held) // first: who holds does not wait for who waits
	b.extend(ctx, b.tryAgain(ctx, waits))
	return b.out, b.first
}

// renewals are what one Renew learns.
type renewals struct {
	e     *Engine
	out   []engine.Claim
	first error
}

func (b *renewals) notification(err error) {
	if b.first == nil {
		b.first = err
	}
}

// extend renews claims that do not wait.
func (b *renewals) extend(ctx context.Context, rs []engine.Renewal) {
	e := b.e
	calls := make([]redisconn.Call, len(rs))
	for i, r := range rs {
		calls[i] = e.call(r.Name, holder(r.ID), millis(r.Want))
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.renew, calls) {
		r := rs[i]
		c, err := e.found(r.Name, r.ID, a)
		if err != nil {
			b.notification(e.explain(err, r.Name))
			continue
		}
		if c.State == engine.Gone {
			e.claims.Drop(r.ID)
		} else {
			e.claims.Extend(r.ID, c.TTL)
		}
		b.out = append(b.out, c)
	}
}

// tryAgain tries for claims that wait, and returns those that do not wait any more:
// they were left meanwhile, or hold by another try.
func (b *renewals) tryAgain(ctx context.Context, rs []engine.Renewal) (others []engine.Renewal) {
	e := b.e
	var again []engine.Renewal
	var requests []engine.Request
	var calls []redisconn.Call
	for _, r := range rs {
		e.tries.Begin(r.ID, r.Want)
		w, ok := e.waiters.get(r.ID)
		if ok && !w.left && w.live() {
			call, err := e.trying(&w.request, r.Want)
			if err == nil {
				again, requests, calls = append(again, r), append(requests, w.request), append(calls, call)
				continue
			}
			b.notification(err)
		}
		e.tries.End(r.ID, true)
		switch {
		case !ok || w.left:
			others = append(others, r)
		case !w.live():
			e.waiters.forget(r.ID)
			e.claims.Drop(r.ID)
			b.out = append(b.out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
		}
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.join, calls) {
		r := again[i]
		c, err := e.tried(&requests[i], r.Want, a)
		if err != nil {
			b.notification(err)
			continue
		}
		e.claims.Extend(r.ID, r.Want)
		if c.State == engine.Waiting {
			e.waiters.extend(r.ID, r.Want)
		}
		b.out = append(b.out, c)
	}
	return others
}
