package migratelock

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	dt "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
)

// hooked is a driver that calls before in front of each migration.
type hooked struct {
	database.Driver
	before func()
}

func (h *hooked) Run(migration io.Reader) error {
	if h.before != nil {
		h.before()
	}
	return h.Driver.Run(migration)
}

func client(t *testing.T, store *memlock.Store) *leasehold.Client {
	t.Helper()
	locks, err := leasehold.New(store.Engine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

func wrap(t *testing.T, inner database.Driver, locks *leasehold.Client, o *Options) *Driver {
	t.Helper()
	d, err := New(inner, locks, "migrate", o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func stubbed(t *testing.T) database.Driver {
	t.Helper()
	s, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func migrator(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(fstest.MapFS{
		"1_table.up.sql": {Data: []byte("CREATE TABLE applied (version INT)")},
		"2_row.up.sql":   {Data: []byte("INSERT INTO applied VALUES (2)")},
		"3_row.up.sql":   {Data: []byte("INSERT INTO applied VALUES (3)")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "leasehold", d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lose ends the lease of a driver, and waits until the driver can know it.
func lose(t *testing.T, d *Driver) {
	queue, err := d.locks.Queue(context.Background(), d.name)
	if err != nil || len(queue.Claims) != 1 {
		t.Errorf("the queue: %v, %v; want the one claim of the driver", queue.Claims, err)
		return
	}
	if err := d.locks.RevokeNow(context.Background(), d.name, queue.Claims[0].Ticket); err != nil {
		t.Error(err)
	}
	select {
	case <-d.held.lease.Context().Done():
	case <-time.After(30 * time.Second):
		t.Error("the lease was not lost")
	}
}

func TestMigratesOwnTestOfDriversPasses(t *testing.T) {
	dt.Test(t, wrap(t, stubbed(t), client(t, memlock.NewStore(nil)), nil), []byte("SELECT 1"))
}

func TestNoMigrationBeginsAfterALoss(t *testing.T) {
	for _, way := range []string{"Do", "Up alone"} {
		t.Run(way, func(t *testing.T) {
			inner := &hooked{Driver: stubbed(t)}
			d := wrap(t, inner, client(t, memlock.NewStore(nil)), nil)
			runs := 0
			inner.before = func() {
				runs++
				lose(t, d)
			}
			up := migrator(t, d).Up
			if way == "Do" {
				up = func() error { return d.Do(t.Context(), migrator(t, d).Up) }
			}
			if err := up(); !errors.Is(err, leasehold.ErrLost) {
				t.Errorf("error %v; want ErrLost", err)
			}
			// The one that ran has ended, and says so.
			if at, dirty, err := d.Version(); runs != 1 || at != 1 || dirty || err != nil {
				t.Errorf("%d migrations ran, version %d, dirty %v, %v; want one, version 1, clean", runs, at, dirty, err)
			}
		})
	}
}

func TestALostMigrationDoesNotOverwriteAVersion(t *testing.T) {
	inner := &hooked{Driver: stubbed(t)}
	d := wrap(t, inner, client(t, memlock.NewStore(nil)), nil)
	inner.before = func() {
		lose(t, d)
		if err := inner.SetVersion(9, false); err != nil { // somebody repaired it
			t.Error(err)
		}
	}
	if err := d.Do(t.Context(), migrator(t, d).Up); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("error %v; want ErrLost", err)
	}
	if at, dirty, err := d.Version(); at != 9 || dirty || err != nil {
		t.Errorf("version %d, dirty %v, %v; want 9, as somebody else wrote", at, dirty, err)
	}
}

func TestTheEndOfTheContextKeepsTheNextMigrationFromBeginning(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	inner := &hooked{Driver: stubbed(t), before: func() { runs++; cancel() }}
	d := wrap(t, inner, client(t, memlock.NewStore(nil)), nil)
	if err := d.Do(ctx, migrator(t, d).Up); !errors.Is(err, context.Canceled) || runs != 1 {
		t.Errorf("error %v, %d migrations; want Canceled and one", err, runs)
	}
}

func TestNamesAndOptionsAreChecked(t *testing.T) {
	locks := client(t, memlock.NewStore(nil))
	for _, name := range []string{"", strings.Repeat("x", 4096), "a\x00b"} {
		if _, err := New(stubbed(t), locks, name, nil); !errors.Is(err, engine.ErrName) {
			t.Errorf("a name of %d bytes: %v; want ErrName", len(name), err)
		}
	}
	if _, err := New(stubbed(t), locks, "migrate", &Options{Wait: -1}); err == nil {
		t.Error("a negative Wait was accepted")
	}
	if _, err := New(nil, locks, "migrate", nil); err == nil {
		t.Error("no driver was accepted")
	}
}

func TestMisuseOfLocksIsRefused(t *testing.T) {
	store := memlock.NewStore(nil)
	first := wrap(t, stubbed(t), client(t, store), nil)
	if err := first.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Errorf("Unlock without Lock: %v; want ErrNotLocked", err)
	}
	if err := first.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := first.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("the second Lock: %v; want ErrLocked", err)
	}
	second := wrap(t, stubbed(t), client(t, store), &Options{Wait: 50 * time.Millisecond})
	if err := second.Lock(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("Lock of a held name: %v; want ErrLocked and ErrHeld", err)
	}
	if err := first.Close(); err != nil { // gives the lease back
		t.Error(err)
	}
	if err := second.Lock(); err != nil {
		t.Errorf("Lock after Close of the holder: %v", err)
	}
	if err := second.Unlock(); err != nil {
		t.Error(err)
	}
}
