// Package kinds has engines of other kinds than memlock, each right in its own way: one
// that sends no notifications, and one without order. The suite must not blame them, and
// the core must work with them. The package is only for tests.
package kinds

import (
	"context"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

// Polling is an engine that sends no notifications: PollAfter says when to poll.
type Polling struct {
	*memlock.Engine
	Every time.Duration
}

// Join implements [engine.Engine].
func (p Polling) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c, err := p.Engine.Join(ctx, r)
	return p.pollAfter(c), err
}

// Renew implements [engine.Engine].
func (p Polling) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	cs, err := p.Engine.Renew(ctx, rs)
	for i := range cs {
		cs[i] = p.pollAfter(cs[i])
	}
	return cs, err
}

func (p Polling) pollAfter(c engine.Claim) engine.Claim {
	if c.State == engine.Waiting {
		c.PollAfter = p.Every
	}
	return c
}

// Watch implements [engine.Engine].
func (p Polling) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return p.Engine.Watch(ctx, func(c engine.Claim) {
		if c.Name == "" {
			changed(c)
		}
	})
}

// Register is a store without order. It remembers holders only, and a Renew of a waiting
// claim tries again.
type Register struct {
	// PollAfter is the advice to waiters. If Notifies is set, a holder that leaves
	// notifies all waiters that it is a good moment to try.
	PollAfter time.Duration
	Notifies  bool

	store *memlock.Store

	mu      sync.Mutex
	clients []*Unordered
}

// NewRegister is one in the given memory.
func NewRegister(s *memlock.Store) *Register { return &Register{store: s} }

// Engine is one more client.
func (r *Register) Engine() *Unordered {
	u := &Unordered{Engine: r.store.Engine(), of: r, waiting: map[engine.ID]engine.Request{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, u)
	return u
}

// Unordered is one client of a Register.
type Unordered struct {
	*memlock.Engine
	of *Register

	// A try that is under way when its claim leaves would take the name for
	// nobody: of Renew and Leave there is one at a time.
	calls sync.Mutex

	mu      sync.Mutex
	waiting map[engine.ID]engine.Request
}

// Guarantees implements [engine.Engine].
func (u *Unordered) Guarantees() engine.Guarantees {
	return engine.Guarantees{Order: engine.OrderNone, Modes: engine.Exclusive, CrashRelease: engine.CrashTTL}
}

// Join implements [engine.Engine].
func (u *Unordered) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if r.Replaces != (engine.ID{}) { // in one step, as a script would
		if _, err := u.Engine.Leave(ctx, []engine.Claim{{Name: r.Name, ID: r.Replaces}}); err != nil {
			return engine.Claim{}, err
		}
	}
	patient := !r.NoWait
	r.NoWait, r.Replaces = true, engine.ID{}
	c, err := u.Engine.Join(ctx, r)
	c.Contended, c.PollAfter = false, 0
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		return c, err
	}
	if c.State != engine.Gone || c.Revoked || !patient {
		delete(u.waiting, r.ID)
		return c, nil
	}
	u.waiting[r.ID] = r
	c.State, c.TTL, c.PollAfter = engine.Waiting, r.WaitTTL, u.of.PollAfter
	return c, nil
}

// Renew implements [engine.Engine].
func (u *Unordered) Renew(ctx context.Context, rs []engine.Renewal) (out []engine.Claim, err error) {
	u.calls.Lock()
	defer u.calls.Unlock()
	for _, r := range rs {
		u.mu.Lock()
		q, waits := u.waiting[r.ID]
		u.mu.Unlock()
		if waits {
			q.WaitTTL, q.NoWait = r.Want, false
			c, err := u.Join(ctx, q)
			if err != nil {
				return out, err
			}
			out = append(out, c)
			continue
		}
		cs, err := u.Engine.Renew(ctx, []engine.Renewal{r})
		if err != nil {
			return out, err
		}
		cs[0].Contended = false
		out = append(out, cs[0])
	}
	return out, ctx.Err()
}

// Leave implements [engine.Engine].
func (u *Unordered) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	u.calls.Lock()
	out, err := u.Engine.Leave(ctx, cs)
	u.mu.Lock()
	for i := range out {
		if _, waits := u.waiting[out[i].ID]; waits {
			out[i].State = engine.Waiting
			delete(u.waiting, out[i].ID)
		}
	}
	u.mu.Unlock()
	u.calls.Unlock()
	if u.of.Notifies {
		u.of.free(out)
	}
	return out, err
}

// free tells who waits for what holders have left.
func (r *Register) free(left []engine.Claim) {
	r.mu.Lock()
	clients := slices.Clone(r.clients)
	r.mu.Unlock()
	for _, c := range left {
		for _, u := range clients {
			if c.State == engine.Held {
				u.try(c.Name)
			}
		}
	}
}

func (u *Unordered) try(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, q := range u.waiting {
		if q.Name == name {
			u.Post(engine.Claim{Name: name, ID: id, Permits: q.Permits, Limit: q.Limit, State: engine.Waiting})
		}
	}
}
