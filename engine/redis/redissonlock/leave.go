package redissonlock

import (
	"context"
	"fmt"
	"strconv"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	call := func(c *engine.Claim) redisconn.Call {
		e.waiters.leave(c.ID) // before the doubt is asked for
		return e.call(c.Name, holder(c.ID), flag(e.tries.Indeterminate(c.ID)))
	}
	send := func(calls []redisconn.Call) []redisconn.Answer { return e.wire.CallMany(ctx, e.scripts.leave, calls) }
	return e.claims.Leave(cs, call, send, func(asked *engine.Claim, a redisconn.Answer) (engine.Claim, error) {
		c, err := e.found(asked.Name, asked.ID, a)
		if err != nil {
			return c, e.explain(err, asked.Name)
		}
		// A claim that waits may have become held by a Renew whose answer was lost,
		// so Redis is asked first; and if only its second answer came, the first
		// attempt may have found it held.
		w, waited := e.waiters.get(asked.ID)
		e.waiters.forget(asked.ID)
		e.tries.Left(asked.ID)
		if c.State == engine.Gone && waited && w.live() && a.Indeterminate == nil {
			c.State = engine.Waiting
		}
		c.TTL = 0
		return c, nil
	})
}

// Revoke implements [engine.Engine]. Only holds that came through leasehold have
// a ticket. Those of Redisson have ticket 0, and are ended at once, as by its
// forceUnlock: the holder finds out when it unlocks.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	a := e.wire.Call(ctx, e.scripts.revoke, e.call(name, strconv.FormatUint(ticket, 10), flag(now)))
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
	case a.Indeterminate != nil: // perhaps the first attempt ended it
		return redisconn.Explain(a.Indeterminate, name)
	}
	return engine.ErrNoClaim
}
