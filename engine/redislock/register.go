package redislock

import (
	"sync"
	"time"

	"leasehold/engine"
)

// register is the claims this engine must leave when it is closed: all that it
// joined, are not detached, and may still stand. A claim whose end was never
// heard of is forgotten after its deadline, so it is bounded by the claims that
// stand.
//
// It is in parts, each with its own lock: every call of many callers goes
// through it.
type register [16]registerPart

func (r *register) part(id engine.ID) *registerPart { return &r[id[0]&15] }

type registerPart struct {
	mu    sync.Mutex
	m     map[engine.ID]registered
	sweep int // size at which to look for expired ones
}

type registered struct {
	name  string
	until time.Time // at least the claim's deadline; only tidying hangs on it
}

func (all *register) add(id engine.ID, name string, ttl time.Duration) {
	now := time.Now()
	r := all.part(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m, r.sweep = map[engine.ID]registered{}, 64
	}
	if len(r.m) >= r.sweep {
		for id, c := range r.m {
			if c.until.Before(now) {
				delete(r.m, id)
			}
		}
		r.sweep = max(64, 2*len(r.m))
	}
	// A request may be under way for a while before its TTL begins to count.
	r.m[id] = registered{name, now.Add(ttl + time.Minute)}
}

func (all *register) extend(id engine.ID, ttl time.Duration) {
	until := time.Now().Add(ttl + time.Minute)
	r := all.part(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.m[id]; ok {
		if until.After(c.until) {
			c.until = until
			r.m[id] = c
		}
	}
}

func (all *register) drop(id engine.ID) {
	r := all.part(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, id)
}

func (all *register) all() (cs []engine.Claim) {
	for i := range all {
		cs = all[i].appendTo(cs)
	}
	return cs
}

func (r *registerPart) appendTo(cs []engine.Claim) []engine.Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.m {
		cs = append(cs, engine.Claim{Name: c.name, ID: id})
	}
	return cs
}
