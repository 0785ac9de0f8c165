package redissonlock

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
	"leasehold/internal/boottime"
)

// Renew implements [engine.Engine]: of a claim that waits it tries again.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	var b batch
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			b.failed(err)
			continue
		}
		if e.longest > 0 {
			r.Want = min(r.Want, e.longest)
		}
		w, waits := e.waiters.get(r.ID)
		switch {
		case !waits:
			call, err := e.call(r.Name, holder(r.ID), millis(r.Want))
			if err != nil {
				b.failed(err)
				continue
			}
			b.ask(engine.Claim{Name: r.Name, ID: r.ID}, call)
		case w.until <= boottime.Now():
			e.waiters.forget(r.ID)
			e.claims.Drop(r.ID)
			b.out = append(b.out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
		default:
			c, err := e.tryAgain(ctx, &w.request, r.Want)
			if err != nil {
				b.failed(err)
				continue
			}
			b.out = append(b.out, c)
		}
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.renew, b.calls) {
		q := b.asked[i]
		c, err := e.answer(q.Name, q.ID, a.RedisResult)
		switch {
		case errors.Is(err, wire.ErrForeign): // it is somebody's data now
			c, err = engine.Claim{Name: q.Name, ID: q.ID, State: engine.Gone}, nil
		case err != nil:
			b.failed(err)
			continue
		}
		if c.State == engine.Gone {
			e.claims.Drop(q.ID)
		} else {
			e.claims.Extend(q.ID, c.TTL)
		}
		b.out = append(b.out, c)
	}
	return b.out, b.err
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

// batch is a call about many claims: what is asked of Redis, what was learned, and
// the first error.
type batch struct {
	asked []engine.Claim
	calls []wire.Call
	out   []engine.Claim
	err   error
}

func (b *batch) ask(c engine.Claim, call wire.Call) {
	b.asked, b.calls = append(b.asked, c), append(b.calls, call)
}

func (b *batch) failed(err error) {
	if b.err == nil {
		b.err = err
	}
}
