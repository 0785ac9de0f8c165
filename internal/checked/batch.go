package checked

import (
	"context"
	"slices"

	"leasehold/engine"
)

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	return batch(ctx, e, rs, (*Engine).renewal, engine.Engine.Renew)
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	return batch(ctx, e, cs, (*Engine).claim, engine.Engine.Leave)
}

// batch passes on what is right of a batch: all of it, in the caller's own memory,
// unless something is not.
func batch[T any](ctx context.Context, e *Engine, items []T, check func(*Engine, T) (T, bool, error), call func(engine.Engine, context.Context, []T) ([]engine.Claim, error)) ([]engine.Claim, error) {
	if len(items) > engine.MaxBatch {
		return nil, engine.Refuse("%d items are more than %d in one call", len(items), engine.MaxBatch)
	}
	right, refused := items, error(nil)
	own := false // right is a copy
	for i, item := range items {
		item, same, err := check(e, item)
		if (err != nil || !same) && !own {
			right, own = slices.Clone(items[:i]), true
		}
		switch {
		case err == nil && own:
			right = append(right, item)
		case err != nil && refused == nil:
			refused = err
		}
	}
	if refused != nil && len(right) == 0 {
		return nil, refused
	}
	if err := e.open(ctx); err != nil || len(right) == 0 {
		return nil, err
	}
	got, err := call(e.inner, ctx, right)
	if err == nil {
		err = refused
	}
	return got, err
}

// renewal is r as the engine gets it, and whether that is r itself.
func (e *Engine) renewal(r engine.Renewal) (_ engine.Renewal, same bool, err error) {
	if err := checkClaim(r.Name, r.ID); err != nil {
		return r, false, err
	}
	if err := engine.CheckTTL(r.Want); err != nil {
		return r, false, err
	}
	want := max(r.Want, e.grants.MinTTL)
	if err := e.grants.CheckTTL(want); err != nil {
		return r, false, err
	}
	same = want == r.Want
	r.Want = want
	return r, same, nil
}

func (e *Engine) claim(c engine.Claim) (_ engine.Claim, same bool, err error) {
	return c, true, checkClaim(c.Name, c.ID)
}

func checkClaim(name string, id engine.ID) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if id == (engine.ID{}) {
		return engine.Refuse("the claim ID is empty")
	}
	return nil
}
