package redissonlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
	"leasehold/internal/boottime"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.leave(ctx, cs)
}

// leave is Leave, also of a closed engine.
func (e *Engine) leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var b batch
	for _, c := range cs {
		err := engine.CheckName(c.Name)
		var call wire.Call
		if err == nil {
			call, err = e.call(c.Name, holder(c.ID))
		}
		if err != nil {
			b.failed(err)
			continue
		}
		b.ask(c, call)
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.leave, b.calls) {
		q := b.asked[i]
		c, err := e.answer(q.Name, q.ID, a.RedisResult)
		if errors.Is(err, wire.ErrForeign) {
			c, err = engine.Claim{Name: q.Name, ID: q.ID, State: engine.Gone}, nil
		}
		if err != nil {
			b.failed(err)
			continue
		}
		// A claim that waits may have become held by a Renew whose answer was lost,
		// so Redis is asked first; and if only its second answer came, the first
		// attempt may have found it held.
		w, waited := e.waiters.get(q.ID)
		e.waiters.forget(q.ID)
		e.claims.Drop(q.ID)
		switch {
		case c.State != engine.Gone:
		case a.Unsure != nil:
			b.failed(wire.Explain(a.Unsure, q.Name))
			continue
		case waited && w.until > boottime.Now():
			c.State = engine.Waiting
		}
		c.TTL = 0
		b.out = append(b.out, c)
	}
	return b.out, b.err
}

// Evict implements [engine.Engine]. Only holds that came through leasehold have
// a ticket. Those of Redisson have ticket 0, and are ended at once, as by its
// forceUnlock: the holder finds out when it unlocks.
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	call, err := e.call(name, strconv.FormatUint(ticket, 10), flag(now))
	if err != nil {
		return err
	}
	a := e.wire.Call(ctx, e.scripts.evict, call)
	n, err := a.AsInt64()
	switch {
	case err != nil:
		return e.explain(err, name)
	case n == 1:
		return nil
	case n == 2:
		return fmt.Errorf("a program with Redisson holds it, which sees no notice: it can only be ended at once: %w", engine.ErrNoClaim)
	case n == 3:
		return e.foreign(name)
	case a.Unsure != nil: // perhaps the first attempt ended it
		return wire.Explain(a.Unsure, name)
	}
	return engine.ErrNoClaim
}
