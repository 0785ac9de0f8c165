package redlock

import (
	"context"
	"errors"
	"sync"

	"leasehold/engine"
)

// Renew implements [engine.Engine]: of a claim that waits it tries again. A claim
// is extended if a majority extends it, and gone if a majority cannot have it.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	var first error
	notification := func(err error) {
		if first == nil {
			first = err
		}
	}
	out := make([]engine.Claim, 0, len(rs))
	var held, waiting []engine.Renewal
	for _, r := range rs {
		err := errors.Join(e.checkName(r.Name), engine.CheckTTL(r.Want))
		if err == nil && r.Want > e.opts.MaxTTL {
			err = engine.Refuse("TTL %v is above this engine's %v", r.Want, e.opts.MaxTTL)
		}
		if err == nil {
			// A try that is under way decides whether it waits or holds.
			err = e.turns.wait(ctx, r.ID)
		}
		if err != nil {
			notification(err)
			continue
		}
		switch _, lives, ok := e.waiting.Get(r.ID); {
		case !ok:
			held = append(held, r)
		case lives:
			waiting = append(waiting, r)
		default:
			e.waiting.Drop(r.ID)
			e.claims.Drop(r.ID)
			out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
		}
	}
	// Together, so that many who wait take one round trip, not one each.
	tries := make([]retry, len(waiting))
	for from := 0; from < len(waiting); from += batch {
		var all sync.WaitGroup
		for i := from; i < min(from+batch, len(waiting)); i++ {
			all.Go(func() { tries[i] = e.again(ctx, waiting[i]) })
		}
		all.Wait()
	}
	for i, t := range tries {
		switch {
		case t.err != nil:
			notification(t.err)
		case t.waited:
			out = append(out, t.claim)
		default:
			held = append(held, waiting[i]) // another call has just been granted it
		}
	}
	if len(held) > 0 {
		if err := e.extend(ctx, held, &out); err != nil {
			notification(err)
		}
	}
	return out, first
}

// retry is what came of one more try.
type retry struct {
	claim  engine.Claim
	waited bool
	err    error
}

// again is one more try of a claim, if it still waits.
func (e *Engine) again(ctx context.Context, r engine.Renewal) retry {
	if err := e.turns.take(ctx, r.ID); err != nil {
		return retry{err: err}
	}
	defer e.turns.end(r.ID)
	w, _, ok := e.waiting.Get(r.ID)
	if !ok {
		return retry{}
	}
	c, err := e.try(ctx, &w, r.Want)
	if err != nil {
		return retry{err: err}
	}
	switch c.State {
	case engine.Waiting:
		e.waiting.Put(r.ID, w, r.Want)
		e.claims.Extend(r.ID, r.Want)
	case engine.Held:
		e.waiting.Drop(r.ID)
		e.claims.Extend(r.ID, c.TTL)
	default:
		e.waiting.Drop(r.ID)
		e.claims.Drop(r.ID)
	}
	return retry{claim: c, waited: true}
}
