package redlock

import (
	"slices"
	"sync"
	"time"
)

// releases are what this client gives up on one master and has no answer to yet, by
// the key of the lock. Leave returns when a majority has answered, and a Join that
// comes next would overtake it on the rest: it would find its own client's lock
// there, and hold a bare majority. So whoever asks a master for a lock waits for
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
