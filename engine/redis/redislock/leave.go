package redislock

import (
	"context"
	"fmt"
	"strconv"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if len(cs) != 1 {
		return e.leave(ctx, cs)
	}
	if err := engine.CheckName(cs[0].Name); err != nil {
		return nil, err
	}
	c := e.leaving(&cs[0])
	left, err := e.left(&cs[0], c, e.group.run(ctx, e.scripts.leave, c, true))
	if err != nil {
		return nil, err
	}
	return []engine.Claim{left}, nil
}

// leave is Leave of several, also of a closed engine.
func (e *Engine) leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var first error
	calls := make([]wire.Call, 0, len(cs))
	asked := make([]*engine.Claim, 0, len(cs))
	for i := range cs {
		if err := engine.CheckName(cs[i].Name); err != nil {
			first = err
			continue
		}
		calls = append(calls, e.leaving(&cs[i]))
		asked = append(asked, &cs[i])
	}
	out := make([]engine.Claim, 0, len(asked))
	for i, a := range e.wire.CallMany(ctx, e.scripts.leave, calls) {
		c, err := e.left(asked[i], calls[i], a)
		if err == nil {
			out = append(out, c)
		} else if first == nil {
			first = err
		}
	}
	return out, first
}

// left reads what became of it.
func (e *Engine) left(asked *engine.Claim, c wire.Call, a wire.Answer) (left engine.Claim, err error) {
	b, err := a.ToString()
	if err != nil {
		return left, wire.Explain(err, c.Keys[0])
	}
	left, ok := found(b)
	switch {
	case !ok:
		return left, fmt.Errorf("redis: not an answer of ours: %d bytes", len(b))
	case left.State == engine.Gone && a.Unsure != nil:
		// It is gone, but perhaps by the first attempt: whether it was held until
		// then nobody can say, and Unlock must not guess.
		e.claims.Drop(asked.ID)
		return left, wire.Explain(a.Unsure, c.Keys[0])
	}
	left.Name, left.ID = asked.Name, asked.ID
	e.claims.Drop(left.ID)
	return left, nil
}

// Evict implements [engine.Engine].
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	if ticket > engine.MaxTicket {
		return engine.ErrNoClaim
	}
	at := "0"
	if now {
		at = "1"
	}
	key := e.key(name)
	a := e.wire.Call(ctx, e.scripts.evict, wire.Call{Keys: []string{key}, Args: []string{strconv.FormatUint(ticket, 10), at}})
	b, err := a.ToString()
	switch {
	case err != nil:
		return wire.Explain(err, key)
	case b == "1":
		return nil
	case b == "0" && a.Unsure != nil:
		return wire.Explain(a.Unsure, key) // perhaps the first attempt ended it
	case b == "0":
		return engine.ErrNoClaim
	}
	return wire.Foreign(key)
}
