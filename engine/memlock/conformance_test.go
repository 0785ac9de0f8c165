package memlock_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	w := &world{}
	w.forget()
	enginetest.Run(t, enginetest.Harness{
		Name:  "memlock",
		New:   func(testing.TB) engine.Engine { return w.client() },
		Now:   w.now,
		Sleep: func(d time.Duration) { w.clock.Add(int64(d)) },
		// A store lives and dies with its process, so starting again is
		// forgetting, and no client can be killed alone: there is no Kill.
		Restart:     func(testing.TB) { w.forget() },
		Forget:      func(testing.TB) { w.forget() },
		LoseReply:   func(_ testing.TB, e engine.Engine) { e.(*client).lose.Store(true) },
		FailPartial: func(_ testing.TB, e engine.Engine, name string) { e.(*client).fail.Store(&name) },
		CountKeys:   func(testing.TB) int { return w.store.Len() },
	})
}

// world is a store under a clock that only tests move.
type world struct {
	clock atomic.Int64

	mu      sync.Mutex
	store   *memlock.Store
	clients []*client
}

func (w *world) now() time.Duration { return time.Duration(w.clock.Load()) }

// forget puts an empty store in place of the old one, under every client.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store = memlock.NewStore(&memlock.Options{Clock: w.now})
	for _, c := range w.clients {
		_ = c.swap(w.store.Engine()).Close()
	}
}

func (w *world) client() *client {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &client{}
	c.swap(w.store.Engine())
	w.clients = append(w.clients, c)
	return c
}

// client is an engine behind a wire that the tests may cut.
type client struct {
	now    atomic.Pointer[memlock.Engine]
	closed atomic.Bool
	lose   atomic.Bool            // the next answer
	fail   atomic.Pointer[string] // that name, in the next batch
}

var errWire = errors.New("the wire was cut")

func (c *client) swap(e *memlock.Engine) (old *memlock.Engine) {
	if old = c.now.Swap(e); old == nil {
		old = e
	}
	if c.closed.Load() {
		_ = e.Close()
	}
	return old
}

func (c *client) lost() error {
	if c.lose.Swap(false) {
		return errWire
	}
	return nil
}

func (c *client) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	got, err := c.now.Load().Join(ctx, r)
	if lost := c.lost(); lost != nil {
		return engine.Claim{}, lost
	}
	return got, err
}

func (c *client) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	name := c.fail.Swap(nil)
	if name == nil {
		got, err := c.now.Load().Renew(ctx, rs)
		return got, errors.Join(err, c.lost())
	}
	rest := slices.DeleteFunc(slices.Clone(rs), func(r engine.Renewal) bool { return r.Name == *name })
	got, err := c.now.Load().Renew(ctx, rest)
	return got, errors.Join(err, errWire)
}

func (c *client) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	got, err := c.now.Load().Leave(ctx, cs)
	if lost := c.lost(); lost != nil {
		return nil, lost
	}
	return got, err
}

// Watch begins again when the store was replaced, as a client does when it
// has to connect again.
func (c *client) Watch(ctx context.Context, changed func(engine.Claim)) error {
	for {
		err := c.now.Load().Watch(ctx, changed)
		if ctx.Err() != nil || c.closed.Load() {
			return err
		}
	}
}

func (c *client) Line(ctx context.Context, name string) (engine.Line, error) {
	return c.now.Load().Line(ctx, name)
}

func (c *client) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return c.now.Load().Lines(ctx, prefix)
}

func (c *client) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	return c.now.Load().Evict(ctx, name, ticket, now)
}

func (c *client) Guarantees() engine.Guarantees { return c.now.Load().Guarantees() }

func (c *client) Close() error {
	c.closed.Store(true)
	return c.now.Load().Close()
}
