package redlock

import (
	"context"
	"sync"

	"leasehold/engine"
)

// turns lets one try of a claim go on at a time. The core may ask for several: the
// masters announce a release one by one. Two tries of one claim at once, of which
// the first is granted by masters 1, 2 and 3, and the second came to 3 before it was
// free there, would end in the second's leaving 1 and 2, which the first relies on.
type turns struct {
	mu sync.Mutex
	m  map[engine.ID]chan struct{} // closed when that try has ended
}

// take waits until no try of the claim is under way, and begins one.
func (t *turns) take(ctx context.Context, id engine.ID) error {
	for {
		t.mu.Lock()
		if t.m == nil {
			t.m = map[engine.ID]chan struct{}{}
		}
		busy, ok := t.m[id]
		if !ok {
			t.m[id] = make(chan struct{})
		}
		t.mu.Unlock()
		if !ok {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end ends the try.
func (t *turns) end(id engine.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.m[id])
	delete(t.m, id)
}

// wait waits until no try of the claim is under way.
func (t *turns) wait(ctx context.Context, id engine.ID) error {
	t.mu.Lock()
	busy, ok := t.m[id]
	t.mu.Unlock()
	if !ok {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
