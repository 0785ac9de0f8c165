package redissonlock

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// Renew implements [engine.Engine]: of a claim that waits it tries again.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	out := make([]engine.Claim, 0, len(rs))
	var held []engine.Renewal
	var calls []wire.Call
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			note(err)
			continue
		}
		if e.longest > 0 {
			r.Want = min(r.Want, e.longest)
		}
		w, waits := e.waiters.get(r.ID)
		switch {
		case !waits:
			held = append(held, r)
			calls = append(calls, e.call(r.Name, holder(r.ID), millis(r.Want)))
		case !w.live():
			e.waiters.forget(r.ID)
			e.claims.Drop(r.ID)
			out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
		default:
			c, err := e.tryAgain(ctx, &w.request, r.Want)
			if err != nil {
				note(err)
				continue
			}
			out = append(out, c)
		}
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.renew, calls) {
		q := held[i]
		c, err := e.found(q.Name, q.ID, a)
		if err != nil {
			note(e.explain(err, q.Name))
			continue
		}
		if c.State == engine.Gone {
			e.claims.Drop(q.ID)
		} else {
			e.claims.Extend(q.ID, c.TTL)
		}
		out = append(out, c)
	}
	return out, first
}

// tryAgain is a Renew of a claim that waits.
func (e *Engine) tryAgain(ctx context.Context, r *engine.Request, want time.Duration) (engine.Claim, error) {
	c, err := e.try(ctx, r, want)
	if err != nil {
		return c, err
	}
	e.claims.Extend(r.ID, want)
	if c.State == engine.Waiting {
		e.waiters.extend(r.ID, want)
	}
	return c, nil
}
