package leasehold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
)

// faulty is an engine whose calls a test can delay, fail or lose the answer
// of. Hooks run around the real call; a nil hook is the real call.
type faulty struct {
	engine.Engine
	far bool // see Guarantees

	mu            sync.Mutex
	join          func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error)
	renew         func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error)
	leave         func(ctx context.Context, cs []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error)
	line          func(ctx context.Context, real func() (engine.Queue, error)) (engine.Queue, error)
	deaf          bool               // notifications are lost
	notifications func(engine.Claim) // what Watch was given
	joins         []engine.Request
	renews        [][]engine.Renewal
	leaves        [][]engine.Claim
	lines         []string
}

var errCut = errors.New("connection cut")

// Guarantees are those of the engine, but for a store that is far away.
func (f *faulty) Guarantees() engine.Guarantees {
	g := f.Engine.Guarantees()
	if f.far {
		g.Scope = engine.ScopeCluster
	}
	return g
}

func (f *faulty) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	f.mu.Lock()
	f.joins = append(f.joins, r)
	hook := f.join
	f.mu.Unlock()
	real := func() (engine.Claim, error) { return f.Engine.Join(context.WithoutCancel(ctx), r) }
	if hook == nil {
		return real()
	}
	return hook(ctx, r, real)
}

func (f *faulty) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	f.mu.Lock()
	f.renews = append(f.renews, rs)
	hook := f.renew
	f.mu.Unlock()
	real := func() ([]engine.Claim, error) { return f.Engine.Renew(context.WithoutCancel(ctx), rs) }
	if hook == nil {
		return real()
	}
	return hook(ctx, rs, real)
}

func (f *faulty) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	f.mu.Lock()
	f.leaves = append(f.leaves, cs)
	hook := f.leave
	f.mu.Unlock()
	real := func() ([]engine.Claim, error) { return f.Engine.Leave(context.WithoutCancel(ctx), cs) }
	if hook == nil {
		return real()
	}
	return hook(ctx, cs, real)
}

func (f *faulty) Queue(ctx context.Context, name string) (engine.Queue, error) {
	f.mu.Lock()
	f.lines = append(f.lines, name)
	hook := f.line
	f.mu.Unlock()
	real := func() (engine.Queue, error) { return f.Engine.Queue(context.WithoutCancel(ctx), name) }
	if hook == nil {
		return real()
	}
	return hook(ctx, real)
}

// looks is how many queues were read.
func (f *faulty) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lines)
}

func (f *faulty) Watch(ctx context.Context, changed func(engine.Claim)) error {
	f.set(func(f *faulty) { f.notifications = changed })
	return f.Engine.Watch(ctx, func(c engine.Claim) {
		f.mu.Lock()
		deaf := f.deaf
		f.mu.Unlock()
		if !deaf {
			changed(c)
		}
	})
}

func (f *faulty) set(change func(*faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// tell passes a notification on as Watch would: from a goroutine of its own. It returns
// when it was taken in.
func (f *faulty) notify(c engine.Claim) {
	f.mu.Lock()
	notifications := f.notifications
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		notifications(c)
	}()
	<-done
}

// calls is how many engine calls were made: joins, renews, leaves.
func (f *faulty) calls() (j, r, l int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.joins), len(f.renews), len(f.leaves)
}

// cutRenew fails every Renew.
func cutRenew(context.Context, []engine.Renewal, func() ([]engine.Claim, error)) ([]engine.Claim, error) {
	return nil, errCut
}

func cutLeave(context.Context, []engine.Claim, func() ([]engine.Claim, error)) ([]engine.Claim, error) {
	return nil, errCut
}

// world is one store inside a bubble, where time is synctest's.
type world struct {
	t     *testing.T
	store *memlock.Store
	clock func() time.Duration
	near  bool // its engines say that a call costs no round trip
}

// bubble runs f in a synctest bubble and closes every client at its end.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Duration { return time.Since(start) + time.Hour }
		f(&world{t: t, store: memlock.NewStore(&memlock.Options{Clock: clock}), clock: clock})
	})
}

// timed has a client of e go by the clock of the bubble.
func (w *world) timed(e engine.Engine) engine.Engine {
	return &door.Engine{Engine: e, Clock: w.clock}
}

// client is one more process, so to speak.
func (w *world) client(o *Options) (*Client, *faulty) {
	w.t.Helper()
	f := &faulty{Engine: w.store.Engine(), far: !w.near}
	c, err := New(w.timed(f), o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c, f
}

// queue is who is in the queue, by label.
func (w *world) line(name string) (held, waiting []string) {
	w.t.Helper()
	e := w.store.Engine()
	defer e.Close()
	l, err := e.Queue(context.Background(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range l.Claims {
		if c.State == engine.Held {
			held = append(held, c.Owner.Label)
		} else {
			waiting = append(waiting, c.Owner.Label)
		}
	}
	return held, waiting
}

func (w *world) wantQueue(name string, held, waiting []string) {
	w.t.Helper()
	h, q := w.line(name)
	if !slices.Equal(h, held) || !slices.Equal(q, waiting) {
		w.t.Fatalf("%q: held by %q, waiting %q; want %q and %q", name, h, q, held, waiting)
	}
}

func mustLock(t *testing.T, c *Client, name string) *Lease {
	t.Helper()
	l, err := c.Lock(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// async runs an obtaining call and hands over what came of it.
type outcome struct {
	l   *Lease
	err error
}

func async(f func() (*Lease, error)) chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		l, err := f()
		ch <- outcome{l, err}
	}()
	return ch
}

func mustUnlock(t *testing.T, l *Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}
