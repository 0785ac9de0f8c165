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
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/slots"
)

// Engine is one client of a Redis, in the plain layout.
type Engine struct {
	wire    *redisconn.Client
	revokes bool // Options.AllowEviction
	prefix  string
	scripts scripts
	claims  joined.Claims
	waiting joined.Map[waiter] // Redis knows nothing of claims that wait
	tries   joined.Tries
	closed  atomic.Bool
	closing chan struct{}
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

// Check implements [engine.Checker]: it looks again at what Open has looked at.
func (e *Engine) Check(ctx context.Context) error { return e.wire.CheckAgain(ctx, e.revokes) }

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if e.closed.Load() {
		return engine.Claim{}, engine.ErrClosed
	}
	if begins, taken := slots.Side(e.prefix + r.Name); taken {
		return engine.Claim{}, engine.Refuse("the key %q may be the one beside another name's lock, since it begins with %q: choose another name", e.prefix+r.Name, begins)
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
	e.tries.Begin(r.ID, r.WaitTTL)
	call := e.trying(&r, r.WaitTTL)
	c, err := e.tried(&r, r.WaitTTL, e.wire.Call(ctx, e.scripts.join, call))
	if err != nil {
		return c, err
	}
	if r.Replaces != (engine.ID{}) {
		e.waiting.Drop(r.Replaces)
		e.claims.Drop(r.Replaces)
		e.tries.Left(r.Replaces)
	}
	if c.State == engine.Waiting && r.NoWait {
		c = engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit, State: engine.Gone}
	}
	switch c.State {
	case engine.Waiting:
		r.Replaces = engine.ID{} // done, whether it was held or waiting
		e.waiting.Put(r.ID, waiter{request: r}, c.TTL)
	case engine.Gone:
		e.claims.Drop(r.ID)
	}
	return c, nil
}

// waiter is a claim that waits.
type waiter struct {
	request engine.Request
	left    bool // nothing of it is tried any more
}

// trying is the call that takes the lock if it is free.
func (e *Engine) trying(r *engine.Request, ttl time.Duration) redisconn.Call {
	args := []string{r.ID.Secret(), millis(ttl), r.Owner.Text()}
	if r.Replaces != (engine.ID{}) {
		// A claim that waits may be tried for until this is answered.
		_, _, waits := e.waiting.Get(r.Replaces)
		args = append(args, r.Replaces.Secret(), flag(waits || e.tries.Indeterminate(r.Replaces)))
	}
	return redisconn.Call{Keys: e.keys(r.Name), Args: args}
}

// tried reads what became of a try, and ends it.
func (e *Engine) tried(r *engine.Request, ttl time.Duration, a redisconn.Answer) (engine.Claim, error) {
	e.tries.End(r.ID, a.NonRedisError() == nil && a.Indeterminate == nil)
	text, err := a.ToString()
	if err != nil {
		return engine.Claim{}, e.explain(err, r.Name)
	}
	c, err := parse(text)
	if err != nil {
		return engine.Claim{}, e.explain(err, r.Name)
	}
	if c.State == engine.Unknown {
		return c, engine.Refuse("the clock of this Redis is absurd: there is no ticket above %d", uint64(engine.MaxTicket))
	}
	c.Name, c.ID = r.Name, r.ID
	if c.State == engine.Waiting {
		left := c.TTL
		c.TTL = ttl
		// Between a third and all of what other programs wait between tries.
		c.PollAfter = 30*time.Millisecond + rand.N(60*time.Millisecond)
		if left >= 0 {
			c.PollAfter = min(c.PollAfter, left+time.Millisecond)
		}
	}
	return c, nil
}

// explain is wire.Explain for the keys of a name.
func (e *Engine) explain(err error, name string) error {
	keys := e.keys(name)
	if junk := redisconn.Beside(err, keys[0], keys[1]); junk != nil {
		return junk
	}
	return redisconn.Explain(err, keys[0])
}

// answer reads what became of a claim. Where its key is somebody's data by now
// it is gone.
func answer(a redisconn.Answer) (engine.Claim, error) {
	text, err := a.ToString()
	switch {
	case errors.Is(redisconn.Explain(err, ""), redisconn.ErrForeign):
		return engine.Claim{State: engine.Gone}, nil
	case err != nil:
		return engine.Claim{}, err
	}
	return parse(text)
}

// parse reads what the scripts return: state, ticket, and a number.
func parse(text string) (engine.Claim, error) {
	var number int64
	c := engine.Claim{Permits: engine.Max, Limit: engine.Max}
	if _, err := fmt.Sscan(text, &c.State, &c.Ticket, &number); err != nil {
		return c, fmt.Errorf("not an answer of ours: %w", err)
	}
	if c.State == engine.Gone {
		c.Revoked = number == 8
	} else {
		c.TTL = time.Duration(number) * time.Millisecond
	}
	return c, nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
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
	b := renewals{e: e, out: make([]engine.Claim, 0, len(rs))}
	var held, waits []engine.Renewal
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			b.notification(err)
		} else if w, _, ok := e.waiting.Get(r.ID); ok && !w.left {
			waits = append(waits, r)
		} else {
			held = append(held, r)
		}
	}
	b.extend(ctx, held) // first: who holds does not wait for who waits
	b.extend(ctx, b.tryAgain(ctx, waits))
	return b.out, b.first
}

// renewals are what one Renew learns.
type renewals struct {
	e     *Engine
	out   []engine.Claim
	first error
}

func (b *renewals) notification(err error) {
	if b.first == nil {
		b.first = err
	}
}

// extend renews claims that do not wait.
func (b *renewals) extend(ctx context.Context, rs []engine.Renewal) {
	e := b.e
	calls := make([]redisconn.Call, len(rs))
	for i, r := range rs {
		calls[i] = redisconn.Call{Keys: e.keys(r.Name), Args: []string{r.ID.Secret(), millis(r.Want)}}
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.renew, calls) {
		r := rs[i]
		c, err := answer(a)
		if err != nil {
			b.notification(e.explain(err, r.Name))
			continue
		}
		c.Name, c.ID = r.Name, r.ID
		if c.State == engine.Gone {
			e.claims.Drop(r.ID)
		} else {
			e.claims.Extend(r.ID, c.TTL)
		}
		b.out = append(b.out, c)
	}
}

// tryAgain tries for claims that wait, and returns those that do not wait any more:
// they were left meanwhile, or hold by another try.
func (b *renewals) tryAgain(ctx context.Context, rs []engine.Renewal) (others []engine.Renewal) {
	e := b.e
	var again []engine.Renewal
	var requests []engine.Request
	var calls []redisconn.Call
	for _, r := range rs {
		e.tries.Begin(r.ID, r.Want)
		w, live, ok := e.waiting.Get(r.ID)
		if live && !w.left {
			again, requests, calls = append(again, r), append(requests, w.request), append(calls, e.trying(&w.request, r.Want))
			continue
		}
		e.tries.End(r.ID, true)
		if !ok || w.left {
			others = append(others, r)
			continue
		}
		e.waiting.Drop(r.ID)
		e.claims.Drop(r.ID)
		b.out = append(b.out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
	}
	for i, a := range e.wire.CallMany(ctx, e.scripts.join, calls) {
		r := again[i]
		c, err := e.tried(&requests[i], r.Want, a)
		if err != nil {
			b.notification(err)
			continue
		}
		e.claims.Extend(r.ID, r.Want)
		if c.State == engine.Waiting {
			e.waiting.Extend(r.ID, c.TTL)
		} else if w := e.waiting.Drop(r.ID); w.left && c.State == engine.Held {
			// Its Leave came back with an error, and may never have been sent.
			e.wire.Later(func(ctx context.Context) { e.Leave(ctx, []engine.Claim{c}) })
		}
		b.out = append(b.out, c)
	}
	return others
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	call := func(c *engine.Claim) redisconn.Call {
		e.waiting.Update(c.ID, func(w *waiter) { w.left = true }) // before the doubt is asked for
		return redisconn.Call{Keys: e.keys(c.Name), Args: []string{c.ID.Secret(), flag(e.tries.Indeterminate(c.ID))}}
	}
	send := func(calls []redisconn.Call) []redisconn.Answer { return e.wire.CallMany(ctx, e.scripts.leave, calls) }
	return e.claims.Leave(cs, call, send, func(asked *engine.Claim, a redisconn.Answer) (engine.Claim, error) {
		c, err := answer(a)
		if err != nil {
			return c, e.explain(err, asked.Name)
		}
		// A claim that waits may have become held by a Renew whose answer was
		// lost, so Redis is asked first; and if only its second answer came, the
		// first attempt may have found it held.
		_, live, _ := e.waiting.Get(asked.ID)
		e.waiting.Drop(asked.ID)
		e.tries.Left(asked.ID)
		if c.State == engine.Gone && live && a.Indeterminate == nil {
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
