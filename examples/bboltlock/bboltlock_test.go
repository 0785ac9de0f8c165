package bboltlock

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/queuestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string) *DB {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	d := open(t, path)
	defer func() { _ = d.Close() }()
	d.file.NoSync = true // no test turns the power off, and the disk is most of the time
	enginetest.Run(t, enginetest.Harness{
		Name: "bboltlock",
		New:  func(testing.TB) engine.Engine { return d.Engine() },
		// The file is closed and opened again, under clients that go on as
		// those of a server would.
		Restart: func(t testing.TB) {
			_ = d.Close()
			again := open(t, path)
			again.file.NoSync = true
			d.file, d.opened, d.base = again.file, again.opened, again.base
		},
		Kill: func(_ testing.TB, e engine.Engine) {
			d.mu.Lock()
			defer d.mu.Unlock()
			for name, x := range d.clients {
				if x == e {
					delete(d.clients, name)
				}
			}
		},
		CountKeys: func(t testing.TB) (n int) {
			err := d.file.View(func(tx *bbolt.Tx) error {
				n = tx.Bucket(lines).Stats().KeyN
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		},
	})
}

func want(name string) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
}

func join(t *testing.T, e *queuestore.Engine, r engine.Request, state engine.State) engine.Claim {
	t.Helper()
	c, err := e.Join(t.Context(), r)
	if err != nil || c.State != state {
		t.Fatalf("Join: %v, %v; want %v", c.State, err, state)
	}
	return c
}

// The process ends without Close, and another opens the file.
func TestAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	d := open(t, path)
	d.base += time.Hour // as if it had been open so long
	crashed := d.Engine()
	first := join(t, crashed, want("held"), engine.Held)
	r := want("detached")
	r.Detached = true
	kept := join(t, crashed, r, engine.Held)
	gone := join(t, crashed, want("gone"), engine.Held)
	if _, err := crashed.Leave(t.Context(), []engine.Claim{gone}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil {
		t.Fatal("the file is open twice")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	d = open(t, path)
	defer func() { _ = d.Close() }()
	if d.base < time.Hour {
		t.Errorf("the clock was at an hour, and goes on at %v", d.base)
	}
	e := d.Engine()
	defer e.Close()
	if c := join(t, e, want("held"), engine.Held); c.Ticket <= first.Ticket {
		t.Errorf("ticket %d follows %d of a claim whose process has ended", c.Ticket, first.Ticket)
	}
	if c := join(t, e, want("gone"), engine.Held); c.Ticket <= gone.Ticket {
		t.Errorf("ticket %d follows %d of a queue that was removed", c.Ticket, gone.Ticket)
	}
	join(t, e, want("detached"), engine.Waiting)
	cs, err := e.Renew(t.Context(), []engine.Renewal{{Name: "detached", ID: kept.ID, Want: time.Second}})
	if err != nil || cs[0].State != engine.Held || cs[0].TTL < 30*time.Second || cs[0].TTL > time.Minute {
		t.Errorf("a detached claim of a minute is %v for %v, %v", cs[0].State, cs[0].TTL, err)
	}
}

// The wall clock was set back, which lets tickets fall where nothing else keeps
// them.
func TestTicketsFallOverARemovedQueueWhenTheClockWasSetBack(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "locks.db"))
	defer func() { _ = d.Close() }()
	e := d.Engine()
	defer e.Close()
	const ahead = engine.MaxTicket / 2 // as if the clock had been there
	if err := d.file.Update(func(tx *bbolt.Tx) error { return put(tx, floor, ahead) }); err != nil {
		t.Fatal(err)
	}
	for ticket := uint64(ahead + 1); ticket < ahead+5; ticket++ {
		c := join(t, e, want("n"), engine.Held)
		if c.Ticket != ticket {
			t.Fatalf("ticket %d, want %d", c.Ticket, ticket)
		}
		if _, err := e.Leave(t.Context(), []engine.Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueuesThatOnlyExpiredAreKept(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "locks.db"))
	defer func() { _ = d.Close() }()
	e := d.Engine()
	defer e.Close()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		join(t, e, want(name), engine.Held)
	}
	d.base += time.Minute
	for range 4 {
		c := join(t, e, want("other"), engine.Held)
		if _, err := e.Leave(t.Context(), []engine.Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
	err := d.file.View(func(tx *bbolt.Tx) error {
		if n := tx.Bucket(lines).Stats().KeyN; n > 0 {
			t.Errorf("%d lines are kept", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
