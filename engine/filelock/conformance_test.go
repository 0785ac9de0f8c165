package filelock

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"

	"leasehold/engine/filelock/internal/liveness"
	"leasehold/engine/filelock/internal/records"
)

func TestConformance(t *testing.T) {
	w := &world{dir: t.TempDir()}
	enginetest.Run(t, enginetest.Harness{
		Name:      "filelock",
		Committed: "../../docs/guarantees",
		New:       w.client,
		Polls:     !liveness.Wakes,
		Restart:   func(testing.TB) { w.reboot() },
		Forget:    w.forget,
		Kill:      func(_ testing.TB, e engine.Engine) { e.(*client).die() },
		LoseReply: func(_ testing.TB, e engine.Engine) func() bool {
			lose := &e.(*client).lose
			lose.Store(true)
			return func() bool { return !lose.Load() }
		},
		FailPartial: func(_ testing.TB, e engine.Engine, name string) { e.(*client).fail.Store(&name) },
		CountKeys:   w.count,
		Spoil:       w.spoils(),
	})
}

// world is one directory and the clients of this process that use it.
type world struct {
	dir   string
	boots atomic.Int32
}

func (w *world) options() *Options {
	return &Options{boot: func(boot [16]byte) [16]byte {
		boot[0] += byte(w.boots.Load())
		return boot
	}}
}

func (w *world) client(t testing.TB) engine.Engine {
	e, err := New(w.dir, w.options())
	if err != nil {
		t.Fatal(err)
	}
	return &client{Engine: e}
}

// reboot has everything that was stored be of another boot.
func (w *world) reboot() { w.boots.Add(1) }

// forget leaves every record zero bytes long, the high-water mark included.
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

// spoils is what may stand in the place of a record.
func (w *world) spoils() map[string]func(testing.TB, string) {
	spoils := map[string]func(testing.TB, string){}
	for kind, put := range map[string]func(record string) error{
		"random bytes": func(record string) error {
			junk := make([]byte, 5000)
			rand.NewChaCha8([32]byte{7}).Read(junk)
			return os.WriteFile(filepath.Join(record, "1"), junk, 0o600)
		},
		"an empty file": func(record string) error { return os.WriteFile(filepath.Join(record, "1"), nil, 0o600) },
		"a number that nobody added": func(record string) error {
			return os.WriteFile(filepath.Join(record, "4611686018427387903"), []byte("x"), 0o600)
		},
		"a name that is no number": func(record string) error { return os.WriteFile(filepath.Join(record, "-1"), nil, 0o600) },
		"a folder": func(record string) error {
			return errors.Join(os.RemoveAll(filepath.Join(record, "1")), os.Mkdir(filepath.Join(record, "1"), 0o700))
		},
		"a symbolic link": func(record string) error { return errors.Join(os.RemoveAll(record), os.Symlink("/nowhere", record)) },
	} {
		spoils[kind] = func(t testing.TB, name string) {
			record := filepath.Join(w.dir, records.Path(name))
			t.Cleanup(func() { _ = os.RemoveAll(record) })
			if err := errors.Join(os.MkdirAll(record, 0o700), put(record)); err != nil {
				t.Error(err)
			}
		}
	}
	return spoils
}

// count is the records that are left after everything idle was swept.
func (w *world) count(t testing.TB) int {
	o := w.options()
	o.idle = 1
	e, err := New(w.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.store.records.Sweep(t.Context(), ""); err != nil {
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

// die ends a client as the kernel does with its process.
func (c *client) die() { c.store.lives.Die() }
