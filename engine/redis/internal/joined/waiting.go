package joined

import (
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// Waiting are claims that wait and that only this client knows of, for engines
// without order: what each needs to be tried again, until its deadline. One that
// is never asked for again is forgotten after that, so they are bounded by the
// claims that wait. The zero value is ready to use.
type Waiting[T any] struct {
	mu    sync.Mutex
	m     map[engine.ID]waiting[T]
	sweep int // size at which to look for expired ones
}

type waiting[T any] struct {
	what  T
	until time.Duration // its deadline, by boottime
}

// Keep notes that a claim waits, for ttl at least: its deadline never moves
// earlier.
func (w *Waiting[T]) Keep(id engine.ID, what T, ttl time.Duration) {
	now := boottime.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m, w.sweep = map[engine.ID]waiting[T]{}, 1024
	}
	if len(w.m) >= w.sweep {
		for id, known := range w.m {
			if known.until < now {
				delete(w.m, id)
			}
		}
		w.sweep = max(1024, 2*len(w.m))
	}
	w.m[id] = waiting[T]{what, max(now+ttl, w.m[id].until)}
}

// Get is what is known of a claim, and whether it still lives. ok: it is known.
func (w *Waiting[T]) Get(id engine.ID) (what T, lives, ok bool) {
	now := boottime.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.m[id]
	return known.what, known.until > now, ok
}

// Drop forgets a claim.
func (w *Waiting[T]) Drop(id engine.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m, id)
}
