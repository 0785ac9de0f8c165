package redislock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// Plain is one client of a Redis in the plain layout: the lock of a name is the
// key of that name, set with NX and PX to its holder's secret and deleted only
// while it still has that value. Programs that use redsync, bsm/redislock or a
// few lines of their own do the same, so all of them exclude each other.
//
// It promises less than lines do: exclusive claims only, no order (who tries at
// a good moment has it), no notes (who waits looks again, after a random time),
// nobody sees who waits. Tokens come from a key beside the lock and rise over
// the holds of others too, as far as the server's clock does.
type Plain struct {
	server
	prefix  string
	scripts plainScripts

	mu      sync.Mutex
	waiting map[engine.ID]*waiter
	sweep   int
}

var _ engine.Engine = (*Plain)(nil)

var (
	//go:embed plain_join.lua
	plainJoinLua string
	//go:embed plain_renew.lua
	plainRenewLua string
	//go:embed plain_leave.lua
	plainLeaveLua string
	//go:embed plain_evict.lua
	plainEvictLua string
	//go:embed plain_read.lua
	plainReadLua string
)

type plainScripts struct{ join, renew, leave, evict, read script }

func newPlainScripts() plainScripts {
	return plainScripts{
		join: newScript(plainJoinLua), renew: newScript(plainRenewLua), leave: newScript(plainLeaveLua),
		evict: newScript(plainEvictLua), read: newScript(plainReadLua),
	}
}

// NewPlain is an engine in the plain layout on the caller's own client, which
// the caller closes after the engine.
func NewPlain(ctx context.Context, client rueidis.Client, o *Options) (*Plain, error) {
	return newPlain(ctx, client, nil, o)
}

func newPlain(ctx context.Context, client rueidis.Client, own *rueidis.ClientOption, o *Options) (*Plain, error) {
	opts, err := o.check("")
	if err != nil {
		return nil, err
	}
	if opts.Replicas > 0 {
		return nil, errors.New("redislock: the plain layout cannot wait for replicas: leave replicas out")
	}
	if err := probe(ctx, client, &opts); err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	p := &Plain{
		server: newServer(client, own),
		prefix: opts.Prefix, scripts: newPlainScripts(), waiting: map[engine.ID]*waiter{}, sweep: 1024,
	}
	return p, nil
}

// Guarantees implements [engine.Engine].
func (p *Plain) Guarantees() engine.Guarantees {
	g := guarantees(p.client)
	g.Order, g.Modes, g.SeesWaiters = engine.OrderNone, engine.Exclusive, false
	return g
}

// Join implements [engine.Engine].
func (p *Plain) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if p.closed.Load() {
		return engine.Claim{}, engine.ErrClosed
	}
	g := p.Guarantees()
	if err := g.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	if r.Limit != engine.Max {
		// n of n excludes as well, but a plain key cannot tell the two apart.
		return engine.Claim{}, fmt.Errorf("%w: the plain layout has only locks, no permits: %w", engine.ErrRefused, errors.ErrUnsupported)
	}
	if !r.Detached {
		p.claims.add(r.ID, r.Name, r.WaitTTL)
	}
	c, err := p.try(ctx, &r, r.WaitTTL)
	if err != nil {
		return c, err
	}
	if r.Replaces != (engine.ID{}) {
		p.forget(r.Replaces)
		p.claims.drop(r.Replaces)
	}
	if c.State == engine.Waiting && r.NoWait {
		c = engine.Claim{Name: r.Name, ID: r.ID, Units: r.Units, Limit: r.Limit, State: engine.Gone}
	}
	switch c.State {
	case engine.Waiting:
		r.Replaces = engine.ID{} // done, whether it was held or waiting
		p.remember(r, c.TTL)
	case engine.Gone:
		p.claims.drop(r.ID)
	}
	return c, nil
}

// try takes the lock if it is free.
func (p *Plain) try(ctx context.Context, r *engine.Request, ttl time.Duration) (engine.Claim, error) {
	keys := p.keys(r.Name)
	args := []string{r.ID.Secret(), millis(ttl), r.Owner.Text(), ""}
	if r.Replaces != (engine.ID{}) {
		args[3] = r.Replaces.Secret()
	}
	c, err := p.answer(r.Name, r.ID, keys, p.run(ctx, &p.scripts.join, call{keys, args}).RedisResult)
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
func (p *Plain) answer(name string, id engine.ID, keys []string, r rueidis.RedisResult) (c engine.Claim, err error) {
	list, err := r.ToArray()
	if err != nil {
		return c, explain(err, keys[0])
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
func (p *Plain) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if p.closed.Load() {
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
	var calls []call
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			note(err)
			continue
		}
		w, ok := p.waiter(r.ID)
		if !ok {
			held = append(held, r)
			calls = append(calls, call{p.keys(r.Name), []string{r.ID.Secret(), millis(r.Want)}})
			continue
		}
		if w.until <= boottime.Now() {
			p.forget(r.ID)
			p.claims.drop(r.ID)
			out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
			continue
		}
		c, err := p.try(ctx, &w.request, r.Want)
		if err != nil {
			note(err)
			continue
		}
		p.claims.extend(r.ID, r.Want)
		if c.State == engine.Waiting {
			p.remember(w.request, c.TTL)
		} else {
			p.forget(r.ID)
		}
		out = append(out, c)
	}
	if len(held) == 0 {
		return out, first
	}
	for i, a := range p.runAll(ctx, &p.scripts.renew, calls) {
		r := held[i]
		c, err := p.answer(r.Name, r.ID, calls[i].keys, a.RedisResult)
		switch {
		case errors.Is(err, errForeign): // it is somebody's data now
			c, err = engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone}, nil
		case err != nil:
			note(err)
			continue
		}
		if c.State == engine.Gone {
			p.claims.drop(r.ID)
		} else {
			p.claims.extend(r.ID, c.TTL)
		}
		out = append(out, c)
	}
	return out, first
}

// Leave implements [engine.Engine].
func (p *Plain) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if p.closed.Load() {
		return nil, engine.ErrClosed
	}
	return p.leave(ctx, cs)
}

func (p *Plain) leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var first error
	var asked []engine.Claim
	var calls []call
	for _, c := range cs {
		if err := engine.CheckName(c.Name); err != nil {
			first = err
			continue
		}
		asked = append(asked, c)
		calls = append(calls, call{p.keys(c.Name), []string{c.ID.Secret()}})
	}
	out := make([]engine.Claim, 0, len(asked))
	if len(asked) == 0 {
		return out, first
	}
	for i, a := range p.runAll(ctx, &p.scripts.leave, calls) {
		q := asked[i]
		c, err := p.answer(q.Name, q.ID, calls[i].keys, a.RedisResult)
		if errors.Is(err, errForeign) {
			c, err = engine.Claim{Name: q.Name, ID: q.ID, State: engine.Gone}, nil
		}
		if err == nil {
			// A claim that waits may have become held by a Renew whose answer
			// was lost, so Redis is asked first.
			w, waited := p.waiter(q.ID)
			p.forget(q.ID)
			p.claims.drop(q.ID)
			switch {
			case c.State != engine.Gone:
			case waited && w.until > boottime.Now():
				c.State = engine.Waiting
			case a.unsure != nil:
				err = explain(a.unsure, calls[i].keys[0])
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
func (p *Plain) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closing:
		return engine.ErrClosed
	}
}

// Close implements [engine.Engine].
func (p *Plain) Close() error { return p.close(p.leave) }
