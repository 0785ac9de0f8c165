package plainlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Engine is one client of a Redis, in the plain layout.
type Engine struct {
	wire    *redisconn.Client
	revokes bool // Options.AllowEviction
	prefix  string
	scripts scripts
	tries   parts.Tries
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Checker = (*Engine)(nil)
)

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:        engine.OrderNone,
		Modes:        engine.Exclusive,
		Fencing:      engine.FencingMemory,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashTTL,
		Detach:       true,
	}
	if e.wire.FailsOver() {
		g.Failover = engine.FailoverMayDouble // a replica is behind its primary
	}
	return g
}

// Check implements [engine.Checker]: it checks the settings that Open checked.
func (e *Engine) Check(ctx context.Context) error { return e.wire.CheckAgain(ctx, e.revokes) }

// Join implements [engine.Engine]. Neither Redis nor this engine remembers waiting claims:
// to try again is to join again.
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := parts.OnlyLocks(&r, "the plain layout"); err != nil {
		return engine.Claim{}, err
	}
	if err := redisconn.CheckKey(e.prefix + r.Name); err != nil {
		return engine.Claim{}, err
	}
	call := redisconn.Call{Keys: e.keys(r.Name), Args: []string{r.ID.Secret(), parts.Millis(r.WaitTTL), r.Owner.Text()}}
	replaces := r.Replaces != engine.ID{}
	if replaces {
		call.Args = append(call.Args, r.Replaces.Secret(), parts.Flag(e.tries.Indeterminate(r.Replaces)))
	}
	e.tries.Begin(r.ID, r.WaitTTL)
	a := e.wire.Call(ctx, e.scripts.join, call)
	if a.NonRedisError() == nil && a.Indeterminate == nil {
		e.tries.Answered(r.ID)
	}
	c, err := answer(a)
	switch {
	case err != nil:
		return engine.Claim{}, e.explain(err, r.Name)
	case c.State == engine.Unknown:
		return engine.Claim{}, engine.Refuse("the next ticket would be above %d: the clock of this Redis is wrong; set it", uint64(engine.MaxTicket))
	}
	if replaces {
		e.tries.Left(r.Replaces)
	}
	c.Name, c.ID = r.Name, r.ID
	switch {
	case c.State == engine.Waiting && r.NoWait:
		c.State, c.TTL = engine.Gone, 0
	case c.State == engine.Waiting:
		// Between a third and all of what other programs wait between tries.
		c.PollAfter = 30*time.Millisecond + rand.N(60*time.Millisecond)
		if left := c.TTL; left >= 0 {
			c.PollAfter = min(c.PollAfter, left+time.Millisecond)
		}
		c.TTL = r.WaitTTL
	}
	return c, nil
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	calls := make([]redisconn.Call, len(rs))
	for i, r := range rs {
		calls[i] = redisconn.Call{Keys: e.keys(r.Name), Args: []string{r.ID.Secret(), parts.Millis(r.Want)}}
	}
	return parts.Each(e.wire.CallMany(ctx, e.scripts.renew, calls), func(i int, a redisconn.Answer) (engine.Claim, error) {
		c, err := e.found(rs[i].Name, a)
		c.Name, c.ID = rs[i].Name, rs[i].ID
		return c, err
	})
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	calls := make([]redisconn.Call, len(cs))
	for i, c := range cs {
		calls[i] = redisconn.Call{Keys: e.keys(c.Name), Args: []string{c.ID.Secret(), parts.Flag(e.tries.Indeterminate(c.ID))}}
	}
	return parts.Left(cs, e.wire.CallMany(ctx, e.scripts.leave, calls), func(i int, a redisconn.Answer) (engine.Claim, error) {
		c, err := e.found(cs[i].Name, a)
		if err == nil {
			e.tries.Left(cs[i].ID)
		}
		return c, err
	})
}

// explain is wire.Explain for the keys of a name.
func (e *Engine) explain(err error, name string) error {
	keys := e.keys(name)
	if junk := redisconn.Beside(err, keys[0], keys[1]); junk != nil {
		return junk
	}
	return redisconn.Explain(err, keys[0])
}

// found is answer for a claim that was there. If its key has another program's data by
// now, the claim is gone.
func (e *Engine) found(name string, a redisconn.Answer) (engine.Claim, error) {
	c, err := answer(a)
	if errors.Is(redisconn.Explain(err, ""), redisconn.ErrForeign) {
		return engine.Claim{State: engine.Gone}, nil
	}
	return c, e.explain(err, name)
}

// answer reads the results of the scripts: state, ticket, and a number. The caller
// explains its errors.
func answer(a redisconn.Answer) (c engine.Claim, err error) {
	text, err := a.ToString()
	if err != nil {
		return c, err
	}
	var number int64
	c = engine.Claim{Permits: engine.Max, Limit: engine.Max}
	if _, err := fmt.Sscan(text, &c.State, &c.Ticket, &number); err != nil {
		return c, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %w", err)
	}
	if c.State == engine.Gone {
		c.Revoked = number == 8
	} else {
		c.TTL = time.Duration(number) * time.Millisecond
	}
	return c, nil
}

// Watch implements [engine.Engine]. Plain keys send no notifications, so Watch only waits:
// PollAfter of every waiting claim says when to try again.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	<-ctx.Done()
	return ctx.Err()
}

// Close implements [engine.Engine]. It waits for at most two seconds for connections that
// are being made or do not answer.
func (e *Engine) Close() error {
	e.wire.Close()
	return nil
}
