package queuelock

import (
	"context"
	"fmt"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	calls := make([]redisconn.Call, len(cs))
	for i := range cs {
		calls[i] = e.leaving(&cs[i])
	}
	var answers []redisconn.Answer
	if len(calls) == 1 {
		answers = []redisconn.Answer{e.run(ctx, e.scripts.leave, calls[0])}
	} else {
		answers = e.wire.CallMany(ctx, e.scripts.leave, calls)
	}
	return parts.Left(cs, answers, func(i int, a redisconn.Answer) (engine.Claim, error) {
		c, err := left(a)
		return c, redisconn.Explain(err, calls[i].Keys[0])
	})
}

// leaving is the call that leaves a claim.
func (e *Engine) leaving(c *engine.Claim) redisconn.Call {
	return redisconn.Call{Keys: []string{e.key(c.Name)}, Args: []string{string(c.ID[:])}}
}

// left reads what leave.lua answers: a stored claim, if it held.
func left(a redisconn.Answer) (c engine.Claim, err error) {
	b, err := a.ToString()
	if err != nil {
		return c, err
	}
	if len(b) != 17 && len(b) != 18 {
		c, ok := decode(b)
		if !ok {
			err = fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %d bytes", len(b))
		}
		return c, err
	}
	c = engine.Claim{Ticket: u64(b), Permits: int32(u32(b[9:])), Limit: int32(u32(b[13:])), State: engine.Held, Contended: len(b) == 18}
	if b[8]&4 != 0 {
		c.State, c.Revoked = engine.Gone, true
	}
	return c, nil
}
