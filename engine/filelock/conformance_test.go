package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"
)

func TestConformance(t *testing.T) {
	w := &world{dir: t.TempDir()}
	enginetest.Run(t, enginetest.Harness{
		Name:        "filelock",
		Committed:   "../../docs/guarantees",
		New:         w.client,
		Polls:       !wakes,
		Restart:     func(testing.TB) { w.reboot() },
		Forget:      w.forget,
		Kill:        func(_ testing.TB, e engine.Engine) { e.(*client).die() },
		LoseReply:   func(_ testing.TB, e engine.Engine) { e.(*client).lose.Store(true) },
		FailPartial: func(_ testing.TB, e engine.Engine, name string) { e.(*client).fail.Store(&name) },
		CountKeys:   w.count,
	})
}

// world is one directory and the clients of this process that use it.
type world struct {
	dir string

	mu      sync.Mutex
	boots   byte
	clients []*client
}

func (w *world) client(t testing.TB) engine.Engine {
	e, err := New(w.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{Engine: e}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.gate.Lock()
	e.boot[0] += w.boots
	e.gate.Unlock()
	w.clients = append(w.clients, c)
	return c
}

// reboot has everything that was stored be of another boot.
func (w *world) reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boots++
	for _, c := range w.clients {
		c.gate.Lock()
		c.boot[0]++
		c.gate.Unlock()
	}
}

// forget leaves every record zero bytes long, the floor included.
func (w *world) forget(t testing.TB) {
	for _, dir := range []string{"lines/*/*", "floor/*"} {
		files, _ := filepath.Glob(filepath.Join(w.dir, dir))
		for _, f := range files {
			if err := os.Truncate(f, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	}
}

// count is the records that are left after everything idle was swept.
func (w *world) count(t testing.TB) int {
	e, err := New(w.dir, &Options{idle: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.gate.Lock()
	w.mu.Lock()
	e.boot[0] += w.boots
	w.mu.Unlock()
	e.gate.Unlock()
	if _, err := e.sweep(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(w.dir, "lines"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// client is an engine whose answers may get lost.
type client struct {
	*Engine
	lose atomic.Bool
	fail atomic.Pointer[string]
}

var errLost = errors.New("the answer was lost")

func (c *client) lost() error {
	if c.lose.Swap(false) {
		return errLost
	}
	return nil
}

func (c *client) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	got, err := c.Engine.Join(ctx, r)
	if lost := c.lost(); lost != nil {
		return engine.Claim{}, lost
	}
	return got, err
}

func (c *client) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if name := c.fail.Swap(nil); name != nil {
		rest := slices.DeleteFunc(slices.Clone(rs), func(r engine.Renewal) bool { return r.Name == *name })
		got, err := c.Engine.Renew(ctx, rest)
		return got, errors.Join(err, errLost)
	}
	got, err := c.Engine.Renew(ctx, rs)
	if lost := c.lost(); lost != nil {
		return nil, lost
	}
	return got, err
}

func (c *client) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if name := c.fail.Swap(nil); name != nil {
		rest := slices.DeleteFunc(slices.Clone(cs), func(r engine.Claim) bool { return r.Name == *name })
		got, err := c.Engine.Leave(ctx, rest)
		return got, errors.Join(err, errLost)
	}
	got, err := c.Engine.Leave(ctx, cs)
	if lost := c.lost(); lost != nil {
		return nil, lost
	}
	return got, err
}

// die ends a client as the kernel does with its process: nothing is left, all
// descriptors are closed.
func (c *client) die() {
	c.mu.Lock()
	clear(c.mine)
	c.mu.Unlock()
	c.gate.Lock()
	c.shut = true
	c.gate.Unlock()
	c.living.end()
}

// Close of one that died only ends its goroutines.
func (c *client) Close() error {
	c.gate.RLock()
	dead := c.shut
	c.gate.RUnlock()
	if !dead {
		return c.Engine.Close()
	}
	c.mu.Lock()
	c.stop()
	for _, m := range c.monitors {
		if m.conn != nil {
			m.conn.Close()
		}
	}
	c.mu.Unlock()
	c.tasks.Wait()
	return nil
}
