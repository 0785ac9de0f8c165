package redislock

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
func (p *Plain) remember(r engine.Request, ttl time.Duration) {
	now := boottime.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) >= p.sweep {
		for id, w := range p.waiting {
			if w.until < now {
				delete(p.waiting, id)
			}
		}
		p.sweep = max(1024, 2*len(p.waiting))
	}
	until := now + ttl
	if w := p.waiting[r.ID]; w != nil {
		until = max(until, w.until)
	}
	p.waiting[r.ID] = &waiter{r, until}
}

func (p *Plain) waiter(id engine.ID) (waiter, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiting[id]
	if !ok {
		return waiter{}, false
	}
	return *w, true
}

func (p *Plain) forget(id engine.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}
