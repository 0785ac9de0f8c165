package plainlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/engine/redis/internal/wire"
	"leasehold/internal/boottime"
)

// Engine is one client of a Redis, in the plain layout.
type Engine struct {
	wire    *wire.Client
	prefix  string
	scripts scripts
	claims  joined.Claims
	closed  atomic.Bool
	closing chan struct{}

	mu      sync.Mutex
	waiting map[engine.ID]*waiter
	sweep   int
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
		e.forget(r.Replaces)
		e.claims.Drop(r.Replaces)
	}
	if c.State == engine.Waiting && r.NoWait {
		c = engine.Claim{Name: r.Name, ID: r.ID, Units: r.Units, Limit: r.Limit, State: engine.Gone}
	}
	switch c.State {
	case engine.Waiting:
		r.Replaces = engine.ID{} // done, whether it was held or waiting
		e.remember(r, c.TTL)
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
	c, err := e.answer(r.Name, r.ID, keys, e.wire.Call(ctx, e.scripts.join, wire.Call{Keys: keys, Args: args}).RedisResult)
	if err == nil && c.State == engine.Waiting {
		left := c.TTL
		c.TTL = ttl
		// Between a third and all of what other programs wait between tries.
		c.Look = 30*time.Millisecond + rand.N(60*time.Millisecond)
		if left >= 0 {
			c.Look = min(c.Look, left+time.Millisecond)
		}
	}
	return c, err
}

// answer reads what the scripts return: state, ticket, and a number.
func (e *Engine) answer(name string, id engine.ID, keys []string, r rueidis.RedisResult) (c engine.Claim, err error) {
	list, err := r.ToArray()
	if err != nil {
		return c, wire.Explain(err, keys[0])
	}
	if len(list) != 3 {
		return c, fmt.Errorf("redis: not an answer of ours: %d values", len(list))
	}
	state, err1 := list[0].AsInt64()
	text, err2 := list[1].ToString()
	number, err3 := list[2].AsInt64()
	ticket, err4 := strconv.ParseUint(text, 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return c, fmt.Errorf("redis: not an answer of ours: %w", err)
	}
	c = engine.Claim{Name: name, ID: id, Ticket: ticket, Units: engine.Max, Limit: engine.Max, State: engine.State(state)}
	if c.State == engine.Gone {
		c.Evicted = number == 8
		return c, nil
	}
	c.TTL = time.Duration(number) * time.Millisecond
	return c, nil
}

// millis rounds up: less than was asked for must not be granted.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// Renew implements [engine.Engine]: of a claim that waits it tries again.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
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
		w, ok := e.waiter(r.ID)
		if !ok {
			held = append(held, r)
			calls = append(calls, wire.Call{Keys: e.keys(r.Name), Args: []string{r.ID.Secret(), millis(r.Want)}})
			continue
		}
		if w.until <= boottime.Now() {
			e.forget(r.ID)
			e.claims.Drop(r.ID)
			out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
			continue
		}
		c, err := e.try(ctx, &w.request, r.Want)
		if err != nil {
			note(err)
			continue
		}
		e.claims.Extend(r.ID, r.Want)
		if c.State == engine.Waiting {
			e.remember(w.request, c.TTL)
		} else {
			e.forget(r.ID)
		}
		out = append(out, c)
	}
	if len(held) == 0 {
		return out, first
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.renew, calls) {
		r := held[i]
		c, err := e.answer(r.Name, r.ID, calls[i].Keys, a.RedisResult)
		switch {
		case errors.Is(err, wire.ErrForeign): // it is somebody's data now
			c, err = engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone}, nil
		case err != nil:
			note(err)
			continue
		}
		if c.State == engine.Gone {
			e.claims.Drop(r.ID)
		} else {
			e.claims.Extend(r.ID, c.TTL)
		}
		out = append(out, c)
	}
	return out, first
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.leave(ctx, cs)
}

func (e *Engine) leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var first error
	var asked []engine.Claim
	var calls []wire.Call
	for _, c := range cs {
		if err := engine.CheckName(c.Name); err != nil {
			first = err
			continue
		}
		asked = append(asked, c)
		calls = append(calls, wire.Call{Keys: e.keys(c.Name), Args: []string{c.ID.Secret()}})
	}
	out := make([]engine.Claim, 0, len(asked))
	if len(asked) == 0 {
		return out, first
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.leave, calls) {
		q := asked[i]
		c, err := e.answer(q.Name, q.ID, calls[i].Keys, a.RedisResult)
		if errors.Is(err, wire.ErrForeign) {
			c, err = engine.Claim{Name: q.Name, ID: q.ID, State: engine.Gone}, nil
		}
		if err == nil {
			// A claim that waits may have become held by a Renew whose answer
			// was lost, so Redis is asked first.
			w, waited := e.waiter(q.ID)
			e.forget(q.ID)
			e.claims.Drop(q.ID)
			switch {
			case c.State != engine.Gone:
			case waited && w.until > boottime.Now():
				c.State = engine.Waiting
			case a.Unsure != nil:
				err = wire.Explain(a.Unsure, calls[i].Keys[0])
			}
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		c.TTL = 0
		out = append(out, c)
	}
	return out, first
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
// for at most two seconds, and then waits for at most five for connections that
// are being made or do not answer.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	close(e.closing)
	err := e.claims.LeaveAll(e.leave)
	e.wire.Close()
	return err
}
