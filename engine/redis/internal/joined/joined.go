// Package joined remembers what an engine must give up when it is closed.
package joined

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leasehold/engine"
)

// Claims are the claims that an engine joined, that are not detached, and that
// may still stand. One whose end was never heard of is forgotten after its
// deadline, so they are bounded by the claims that stand. The zero value is
// ready to use.
type Claims struct {
	mu    sync.Mutex
	m     map[engine.ID]claim
	sweep int // size at which to look for expired ones
}

type claim struct {
	name  string
	until time.Time // at least its deadline; only tidying hangs on it
}

// slack is for a request that is under way for a while before its TTL begins to
// count.
const slack = time.Minute

// Add notes a claim that may be joined from now on.
func (c *Claims) Add(id engine.ID, name string, ttl time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m, c.sweep = map[engine.ID]claim{}, 1024
	}
	if len(c.m) >= c.sweep {
		for id, known := range c.m {
			if known.until.Before(now) {
				delete(c.m, id)
			}
		}
		c.sweep = max(1024, 2*len(c.m))
	}
	c.m[id] = claim{name, now.Add(ttl + slack)}
}

// Extend notes that a claim lives for longer.
func (c *Claims) Extend(id engine.ID, ttl time.Duration) {
	until := time.Now().Add(ttl + slack)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.m[id]; ok && until.After(known.until) {
		c.m[id] = claim{known.name, until}
	}
}

// Drop notes that a claim is gone.
func (c *Claims) Drop(id engine.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, id)
}

// all lists them.
func (c *Claims) all() (cs []engine.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range c.m {
		cs = append(cs, engine.Claim{Name: known.name, ID: id})
	}
	return cs
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
