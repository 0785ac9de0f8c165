package service

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/remote"
	"leasehold/internal/view"
)

// feed reads all queues once for everybody who watches, and tells each of them what has
// changed. While nobody watches it reads nothing.
type feed struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	last     map[string]engine.Queue
	began    chan struct{} // capacity 1: somebody watches now
	once     sync.Once
}

// feedEvery is how often the feed reads.
const feedEvery = time.Second

// watcher is one request that watches.
type watcher struct {
	may     func(name string) bool
	mu      sync.Mutex
	changes map[string]engine.Queue // the latest of each name, until it is sent
	failure string
	woken   chan struct{} // capacity 1
}

func (f *feed) init() {
	f.once.Do(func() {
		f.watchers, f.began = map[*watcher]struct{}{}, make(chan struct{}, 1)
	})
}

// add has a watcher told what there is, and then each change, until stop is called.
func (f *feed) add(w *watcher) (stop func()) {
	f.init()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers[w] = struct{}{}
	w.tell(f.last)
	select {
	case f.began <- struct{}{}:
	default: // it reads already
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(f.watchers, w); len(f.watchers) == 0 {
			f.last = nil // it would be old for who comes next
		}
	}
}

// run reads for as long as somebody watches, until ctx ends.
func (f *feed) run(ctx context.Context, s *Server) {
	f.init()
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for {
		f.mu.Lock()
		idle := len(f.watchers) == 0
		f.mu.Unlock()
		if idle {
			select {
			case <-f.began:
			case <-ctx.Done():
				return
			}
		}
		f.read(ctx, s)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *feed) read(ctx context.Context, s *Server) {
	now := map[string]engine.Queue{}
	bounded, cancel := s.bound(ctx)
	defer cancel()
	var failure string
	for q, err := range s.eng.Queues(bounded, "") {
		if err != nil {
			failure = because(bounded, err).Error()
			break
		}
		if len(now) == maxRead {
			failure = errTooManyNames.Error()
			break
		}
		now[q.Name] = q
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.watchers) == 0 {
		f.last = nil // the last one went meanwhile: it would be old for who comes next
		return
	}
	if failure != "" {
		for w := range f.watchers {
			w.fail(failure)
		}
		return
	}
	changed := map[string]engine.Queue{}
	for name, q := range now {
		if !same(f.last[name], q) {
			changed[name] = q
		}
	}
	for name := range f.last {
		if _, there := now[name]; !there {
			changed[name] = engine.Queue{Name: name}
		}
	}
	f.last = now
	for w := range f.watchers {
		w.tell(changed)
	}
}

// same reports whether nothing has changed but the time that is left.
func same(a, b engine.Queue) bool {
	if a.Limit != b.Limit || len(a.Claims) != len(b.Claims) {
		return false
	}
	for i := range a.Claims {
		x, y := a.Claims[i], b.Claims[i]
		x.TTL, y.TTL, x.PollAfter, y.PollAfter = 0, 0, 0, 0
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

func (w *watcher) tell(qs map[string]engine.Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, q := range qs {
		if w.may(name) {
			w.changes[name] = q
		}
	}
	w.failure = ""
	w.wake()
}

func (w *watcher) fail(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = text
	w.wake()
}

func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *watcher) take() (map[string]engine.Queue, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	qs, failure := w.changes, w.failure
	w.changes, w.failure = map[string]engine.Queue{}, ""
	return qs, failure
}

// getWatch sends an event "queue" with each queue there is, and again when one has changed:
// without claims when nobody holds it or waits any more. An event "failure" says that the
// engine could not be read.
func (s *Server) getWatch(w http.ResponseWriter, r *http.Request) {
	prefix, who := r.URL.Query().Get("prefix"), callerOf(r.Context())
	watching := &watcher{
		changes: map[string]engine.Queue{}, woken: make(chan struct{}, 1),
		may: func(name string) bool { return strings.HasPrefix(name, prefix) && who.may(Look, name) == nil },
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead { // its answer has no end that the caller could see
		return
	}
	out := newStream(w, cancel)
	out.line([]byte(": leasehold"))
	defer s.feed.add(watching)()
	alive := time.NewTicker(remote.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case <-watching.woken:
			qs, failure := watching.take()
			if failure != "" {
				out.event("failure", problem{failure})
			}
			for _, q := range qs {
				out.event("queue", view.Of(who.sees(q)))
			}
		case <-alive.C:
			if !s.stillKnown(r) {
				return
			}
			out.line([]byte(":"))
		case <-s.draining:
			return
		case <-ctx.Done():
			return
		}
	}
}
