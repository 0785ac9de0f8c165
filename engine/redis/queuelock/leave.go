package queuelock

import (
	"context"
	"fmt"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	return e.claims.Leave(cs, e.leaving, func(calls []redisconn.Call) []redisconn.Answer {
		if len(calls) == 1 {
			return []redisconn.Answer{e.group.run(ctx, e.scripts.leave, calls[0], true)}
		}
		return e.wire.CallMany(ctx, e.scripts.leave, calls)
	}, found)
}

// leaving is the call that leaves a claim.
func (e *Engine) leaving(c *engine.Claim) redisconn.Call {
	return redisconn.Call{Keys: []string{e.key(c.Name)}, Args: []string{string(c.ID[:])}}
}

// found reads what leave.lua answers: a stored claim, if it held.
func found(_ *engine.Claim, a redisconn.Answer) (c engine.Claim, err error) {
	b, err := a.ToString()
	if err != nil {
		return c, err
	}
	if len(b) != 17 && len(b) != 18 {
		c, ok := decode(b)
		if !ok {
			err = fmt.Errorf("not an answer of ours: %d bytes", len(b))
		}
		return c, err
	}
	c = engine.Claim{Ticket: u64(b), Permits: int32(u32(b[9:])), Limit: int32(u32(b[13:])), State: engine.Held, Contended: len(b) == 18}
	if b[8]&4 != 0 {
		c.State, c.Revoked = engine.Gone, true
	}
	return c, nil
}
