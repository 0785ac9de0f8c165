package redlock

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
)

// releases are what this client gives up on one master and has no answer to yet, by
// the key of the lock. Leave returns when a majority has answered, and a Join that
// comes next would overtake it on the rest: it would find its own client's lock
// there, and hold a bare majority. So a call that asks a master for a lock waits for
// what was to be given up there before, in the order in which this client was
// called.
type releases struct {
	mu sync.Mutex
	m  map[string][]chan struct{}
}

// add records a release that is to be sent. What it returns is called when it is
// answered, or failed.
func (r *releases) add(key string) (answered func()) {
	c := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string][]chan struct{}{}
	}
	r.m[key] = append(r.m[key], c)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(c)
		rest := slices.DeleteFunc(slices.Clone(r.m[key]), func(other chan struct{}) bool { return other == c })
		if r.m[key] = rest; len(rest) == 0 {
			delete(r.m, key)
		}
	}
}

// before are those of a key that were noted until now.
func (r *releases) before(key string) []chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.m[key])
}

// await waits until releases are answered, and reports whether they are: not if the
// try is over before, or its time for a master is. A lock that is taken then is in
// everybody's way.
func (t *try) await(before []chan struct{}, patience time.Duration) bool {
	if len(before) == 0 {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, c := range before {
		select {
		case <-c:
		case <-t.over:
			return false
		case <-timer.C:
			return false
		case <-t.e.life.Done():
			return false
		}
	}
	return true
}

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

// last takes the turns of claims that are left, so that no try of one is under way
// meanwhile: it would take the lock for nobody.
func (t *turns) last(ctx context.Context, cs []engine.Claim) (end func(), err error) {
	var ids, taken []engine.ID
	for _, c := range cs {
		ids = append(ids, c.ID)
	}
	// In one order, or two calls could wait for each other.
	slices.SortFunc(ids, func(a, b engine.ID) int { return bytes.Compare(a[:], b[:]) })
	end = func() {
		for _, id := range taken {
			t.end(id)
		}
	}
	for _, id := range slices.Compact(ids) {
		if err := t.take(ctx, id); err != nil {
			end()
			return nil, err
		}
		taken = append(taken, id)
	}
	return end, nil
}
