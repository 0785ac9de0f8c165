package plainlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/engine/redis/internal/wire"
)

// Engine is one client of a Redis, in the plain layout.
type Engine struct {
	wire    *wire.Client
	prefix  string
	scripts scripts
	claims  joined.Claims
	waiting joined.Map[engine.Request] // Redis knows nothing of claims that wait
	closed  atomic.Bool
	closing chan struct{}
}

var _ engine.Engine = (*Engine)(nil)

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

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if e.closed.Load() {
		return engine.Claim{}, engine.ErrClosed
	}
	g := e.Guarantees()
	if err := g.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	if r.Limit != engine.Max {
		// n of n excludes as well, but a plain key cannot tell the two apart.
		return engine.Claim{}, fmt.Errorf("%w: the plain layout has only locks, no permits: %w", engine.ErrRefused, errors.ErrUnsupported)
	}
	if !r.Detached {
		e.claims.Add(r.ID, r.Name, r.WaitTTL)
	}
	c, err := e.try(ctx, &r, r.WaitTTL)
	if err != nil {
		return c, err
	}
	if r.Replaces != (engine.ID{}) {
		e.waiting.Drop(r.Replaces)
		e.claims.Drop(r.Replaces)
	}
	if c.State == engine.Waiting && r.NoWait {
		c = engine.Claim{Name: r.Name, ID: r.ID, Units: r.Units, Limit: r.Limit, State: engine.Gone}
	}
	switch c.State {
	case engine.Waiting:
		r.Replaces = engine.ID{} // done, whether it was held or waiting
		e.waiting.Put(r.ID, r, c.TTL)
	case engine.Gone:
		e.claims.Drop(r.ID)
	}
	return c, nil
}

// try takes the lock if it is free.
func (e *Engine) try(ctx context.Context, r *engine.Request, ttl time.Duration) (engine.Claim, error) {
	keys := e.keys(r.Name)
	args := []string{r.ID.Secret(), millis(ttl), r.Owner.Text(), ""}
	if r.Replaces != (engine.ID{}) {
		args[3] = r.Replaces.Secret()
	}
	text, err := e.wire.Call(ctx, e.scripts.join, wire.Call{Keys: keys, Args: args}).ToString()
	if err != nil {
		return engine.Claim{}, wire.Explain(err, keys[0])
	}
	c, err := parse(text)
	if err != nil {
		return engine.Claim{}, wire.Explain(err, keys[0])
	}
	c.Name, c.ID = r.Name, r.ID
	if c.State == engine.Waiting {
		left := c.TTL
		c.TTL = ttl
		// Between a third and all of what other programs wait between tries.
		c.Look = 30*time.Millisecond + rand.N(60*time.Millisecond)
		if left >= 0 {
			c.Look = min(c.Look, left+time.Millisecond)
		}
	}
	return c, nil
}

// answer reads what became of a claim. Where its key is somebody's data by now
// it is gone.
func answer(a wire.Answer) (engine.Claim, error) {
	text, err := a.ToString()
	switch {
	case errors.Is(wire.Explain(err, ""), wire.ErrForeign):
		return engine.Claim{State: engine.Gone}, nil
	case err != nil:
		return engine.Claim{}, err
	}
	return parse(text)
}

// parse reads what the scripts return: state, ticket, and a number.
func parse(text string) (engine.Claim, error) {
	var number int64
	c := engine.Claim{Units: engine.Max, Limit: engine.Max}
	if _, err := fmt.Sscan(text, &c.State, &c.Ticket, &number); err != nil {
		return c, fmt.Errorf("not an answer of ours: %w", err)
	}
	if c.State == engine.Gone {
		c.Evicted = number == 8
	} else {
		c.TTL = time.Duration(number) * time.Millisecond
	}
	return c, nil
}

// millis rounds up: less than was asked for must not be granted.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

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
		if request, live, ok := e.waiting.Get(r.ID); ok {
			if c, err := e.tryAgain(ctx, r, request, live); err != nil {
				note(err)
			} else {
				out = append(out, c)
			}
			continue
		}
		held = append(held, r)
		calls = append(calls, wire.Call{Keys: e.keys(r.Name), Args: []string{r.ID.Secret(), millis(r.Want)}})
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.renew, calls) {
		r := held[i]
		c, err := answer(a)
		if err != nil {
			note(wire.Explain(err, calls[i].Keys[0]))
			continue
		}
		c.Name, c.ID = r.Name, r.ID
		if c.State == engine.Gone {
			e.claims.Drop(r.ID)
		} else {
			e.claims.Extend(r.ID, c.TTL)
		}
		out = append(out, c)
	}
	return out, first
}

// tryAgain is Renew of a claim that waits.
func (e *Engine) tryAgain(ctx context.Context, r engine.Renewal, request engine.Request, live bool) (engine.Claim, error) {
	if !live {
		e.waiting.Drop(r.ID)
		e.claims.Drop(r.ID)
		return engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone}, nil
	}
	c, err := e.try(ctx, &request, r.Want)
	if err != nil {
		return c, err
	}
	e.claims.Extend(r.ID, r.Want)
	if c.State == engine.Waiting {
		e.waiting.Put(r.ID, request, c.TTL)
	} else {
		e.waiting.Drop(r.ID)
	}
	return c, nil
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	call := func(c *engine.Claim) wire.Call { return wire.Call{Keys: e.keys(c.Name), Args: []string{c.ID.Secret()}} }
	send := func(calls []wire.Call) []wire.Answer { return e.wire.CallMany(ctx, e.scripts.leave, calls) }
	return e.claims.Leave(cs, call, send, func(asked *engine.Claim, a wire.Answer) (engine.Claim, error) {
		c, err := answer(a)
		if err != nil {
			return c, err
		}
		// A claim that waits may have become held by a Renew whose answer was
		// lost, so Redis is asked first; and if only its second answer came, the
		// first attempt may have found it held.
		_, live, _ := e.waiting.Get(asked.ID)
		e.waiting.Drop(asked.ID)
		if c.State == engine.Gone && live && a.Unsure == nil {
			c.State = engine.Waiting
		}
		c.TTL = 0
		return c, nil
	})
}

// Watch implements [engine.Engine]. Plain keys tell nobody, so it only waits:
// Look of every waiting claim says when to try again.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return engine.ErrClosed
	}
}

// Close implements [engine.Engine]: it leaves every claim that is not detached,
// for at most two seconds, and then waits for at most two more for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	close(e.closing)
	err := e.claims.LeaveAll(e.Leave)
	e.wire.Close()
	return err
}
