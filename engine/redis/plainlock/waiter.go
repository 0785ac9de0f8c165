package plainlock

import (
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// waiter is a claim that waits. Redis knows nothing of it.
type waiter struct {
	request engine.Request
	until   time.Duration // its deadline, by boottime
}

// remember keeps a claim that waits, until its deadline at least.
func (e *Engine) remember(r engine.Request, ttl time.Duration) {
	now := boottime.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= e.sweep {
		for id, w := range e.waiting {
			if w.until < now {
				delete(e.waiting, id)
			}
		}
		e.sweep = max(1024, 2*len(e.waiting))
	}
	until := now + ttl
	if w := e.waiting[r.ID]; w != nil {
		until = max(until, w.until)
	}
	e.waiting[r.ID] = &waiter{r, until}
}

func (e *Engine) waiter(id engine.ID) (waiter, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.waiting[id]
	if !ok {
		return waiter{}, false
	}
	return *w, true
}

func (e *Engine) forget(id engine.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, id)
}
