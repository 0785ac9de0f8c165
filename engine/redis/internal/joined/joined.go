// Package joined is what the engines of this module share about claims: they
// remember those that must be given up at Close, give several up at once, and
// show the lines that stand.
package joined

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// Map remembers something of each claim until its deadline at least, by
// boottime. What is past that goes when room is needed, so it is bounded by the
// claims that stand. The zero value is ready to use.
type Map[V any] struct {
	mu    sync.Mutex
	m     map[engine.ID]entry[V]
	sweep int // size at which to look for expired ones
}

type entry[V any] struct {
	value V
	until time.Duration
}

// Put remembers v. No deadline moves earlier.
func (m *Map[V]) Put(id engine.ID, v V, ttl time.Duration) {
	m.change(id, ttl, func(known *V) bool {
		*known = v
		return true
	})
}

// change has f change what is known, from nothing if nothing is, and forgets it if f
// says so. No deadline moves earlier.
func (m *Map[V]) change(id engine.ID, ttl time.Duration, f func(*V) (keep bool)) {
	now := boottime.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m, m.sweep = map[engine.ID]entry[V]{}, 1024
	}
	if len(m.m) >= m.sweep {
		for id, known := range m.m {
			if known.until < now {
				delete(m.m, id)
			}
		}
		m.sweep = max(1024, 2*len(m.m))
	}
	known := m.m[id]
	if !f(&known.value) {
		delete(m.m, id)
		return
	}
	known.until = max(known.until, now+ttl)
	m.m[id] = known
}

// Update has f change what is known, if anything is.
func (m *Map[V]) Update(id engine.ID, f func(*V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.m[id]; ok {
		f(&known.value)
		m.m[id] = known
	}
}

// Get is what was put last, and whether its deadline is ahead.
func (m *Map[V]) Get(id engine.ID) (v V, live, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.m[id]
	return known.value, known.until > boottime.Now(), ok
}

// Extend moves the deadline of what is known.
func (m *Map[V]) Extend(id engine.ID, ttl time.Duration) {
	until := boottime.Now() + ttl
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.m[id]; ok && until > known.until {
		m.m[id] = entry[V]{known.value, until}
	}
}

// Drop forgets it, and is what was known.
func (m *Map[V]) Drop(id engine.ID) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.m[id]
	delete(m.m, id)
	return known.value
}

// Claims are the claims that an engine joined, that are not detached, and that
// may still stand. The zero value is ready to use.
type Claims struct{ names Map[string] }

// slack is for a request that is under way for a while before its TTL begins to
// count.
const slack = time.Minute

// Add records a claim that may be joined from now on.
func (c *Claims) Add(id engine.ID, name string, ttl time.Duration) { c.names.Put(id, name, ttl+slack) }

// Extend records that a claim lives for longer.
func (c *Claims) Extend(id engine.ID, ttl time.Duration) { c.names.Extend(id, ttl+slack) }

// Drop records that a claim is gone.
func (c *Claims) Drop(id engine.ID) { c.names.Drop(id) }

// all lists them.
func (c *Claims) all() (cs []engine.Claim) {
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	for id, known := range c.names.m {
		cs = append(cs, engine.Claim{Name: known.value, ID: id})
	}
	return cs
}

// Leave gives claims up together: call is what asks for one, send sends, and
// found reads how one was found. It answers for those of which it learned that,
// and the first error.
func (c *Claims) Leave(
	cs []engine.Claim,
	call func(*engine.Claim) redisconn.Call,
	send func([]redisconn.Call) []redisconn.Answer,
	found func(*engine.Claim, redisconn.Answer) (engine.Claim, error),
) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var first error
	notification := func(err error) {
		if first == nil {
			first = err
		}
	}
	asked := make([]*engine.Claim, 0, len(cs))
	calls := make([]redisconn.Call, 0, len(cs))
	for i := range cs {
		if err := engine.CheckName(cs[i].Name); err != nil {
			notification(err)
			continue
		}
		asked, calls = append(asked, &cs[i]), append(calls, call(&cs[i]))
	}
	if len(calls) == 0 {
		return nil, first
	}
	out := make([]engine.Claim, 0, len(asked))
	for i, a := range send(calls) {
		left, err := found(asked[i], a)
		if err != nil {
			notification(redisconn.Explain(err, calls[i].Keys[0]))
			continue
		}
		c.Drop(asked[i].ID)
		if left.State == engine.Gone && a.Indeterminate != nil {
			// It is gone, but perhaps by the first attempt: whether it was held
			// until then nobody can say, and Unlock must not guess.
			notification(redisconn.Explain(a.Indeterminate, calls[i].Keys[0]))
			continue
		}
		left.Name, left.ID = asked[i].Name, asked[i].ID
		out = append(out, left)
	}
	return out, first
}

// leaveBound is how long LeaveAll tries.
const leaveBound = 2 * time.Second

// LeaveAll gives all of them up by leave, which drops those it has heard of.
func (c *Claims) LeaveAll(leave func(context.Context, []engine.Claim) ([]engine.Claim, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
	defer cancel()
	var err error
	for left := c.all(); len(left) > 0 && err == nil; {
		n := min(engine.MaxBatch, len(left))
		_, err = leave(ctx, left[:n])
		left = left[n:]
	}
	n := len(c.all())
	if n == 0 || err == nil {
		return nil // all are gone, even if of some it is not known how they were found
	}
	return fmt.Errorf("redis: %d claims were not left and end by their TTL: %w", n, err)
}
