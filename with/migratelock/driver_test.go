package migratelock

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	dt "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/leaseholdtest"
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
	second := wrap(t, stubbed(t), client(t, store), &Options{Wait: time.Second})
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

// The second one would wait for the first, for ever: Do has no time-out of its own.
func TestASecondDoOfADriverIsRefused(t *testing.T) {
	locks := client(t, memlock.NewStore(nil))
	d := wrap(t, stubbed(t), locks, nil)
	ran := func() error { return errors.New("it ran") }
	bounded, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := d.Do(t.Context(), func() error { return d.Do(bounded, ran) }); !errors.Is(err, ErrRunning) {
		t.Errorf("Do in Do: %v; want ErrRunning", err)
	}
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(bounded, ran); !errors.Is(err, ErrRunning) {
		t.Errorf("Do after Lock: %v; want ErrRunning", err)
	}
	if err := d.Unlock(); err != nil {
		t.Error(err)
	}
	if err := d.Do(t.Context(), func() error { return nil }); err != nil {
		t.Errorf("Do after all that: %v", err)
	}
}

// waiting has a Driver wait in Lock, for a name that somebody else holds.
func waiting(t *testing.T) (d *Driver, locks *leasehold.Client, holder *leasehold.Lease, locked chan error) {
	t.Helper()
	locks = client(t, memlock.NewStore(nil))
	holder, err := locks.Lock(t.Context(), "migrate")
	if err != nil {
		t.Fatal(err)
	}
	d = wrap(t, stubbed(t), locks, &Options{Wait: time.Minute})
	locked = make(chan error, 1)
	go func() { locked <- d.Lock() }()
	for locks.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	return d, locks, holder, locked
}

func TestWhileLockWaitsNobodyElseOfTheDriverDoes(t *testing.T) {
	d, _, holder, locked := waiting(t)
	bounded, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := d.Do(bounded, func() error { return nil }); !errors.Is(err, ErrRunning) {
		t.Fatalf("Do: %v; want ErrRunning", err)
	}
	if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("Lock: %v; want ErrLocked", err)
	}
	if err := d.Unlock(); !errors.Is(err, database.ErrNotLocked) {
		t.Errorf("Unlock: %v; want ErrNotLocked", err)
	}
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-locked, d.Unlock()); err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

func TestCloseEndsTheWaitingOfLock(t *testing.T) {
	d, locks, holder, locked := waiting(t)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-locked:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the Lock that waited: %v; want ErrClosed", err)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("Lock waits on")
	}
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	l, err := locks.TryLock(t.Context(), "migrate")
	if err != nil {
		t.Fatalf("after it: %v; want a free name", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestTheWaitOfTheClientDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		d := wrap(t, stubbed(t), locks.With(leasehold.LockOptions{Wait: time.Second}), &Options{Wait: time.Minute})
		release := locks.Block("migrate")
		began := time.Now()
		if err := d.Lock(); !errors.Is(err, leasehold.ErrHeld) || time.Since(began) != time.Minute {
			t.Errorf("Lock: %v after %v; want ErrHeld after Options.Wait", err, time.Since(began))
		}
		done := make(chan error, 1)
		go func() { done <- d.Do(t.Context(), func() error { return nil }) }()
		time.Sleep(time.Hour)
		release()
		if err := <-done; err != nil {
			t.Errorf("Do: %v; want it to wait as long as its context lasts", err)
		}
	})
}

// busy is a driver whose own lock somebody else has until free is closed.
type busy struct {
	database.Driver
	asked, free, back chan struct{}
}

func (b *busy) Lock() error {
	b.asked <- struct{}{}
	<-b.free
	return nil
}

func (b *busy) Unlock() error {
	b.back <- struct{}{}
	return nil
}

// migrate gives up on a Lock that waits for too long, and Lock goes on behind its back.
func TestTheLockOfTheWrappedDriverKeepsNoLease(t *testing.T) {
	for _, way := range []string{"Do", "Close"} {
		t.Run(way, func(t *testing.T) {
			locks := leaseholdtest.New(t)
			inner := &busy{stubbed(t), make(chan struct{}, 9), make(chan struct{}), make(chan struct{}, 9)}
			d := wrap(t, inner, locks.Client, &Options{OwnLock: true})
			locked, ended := make(chan error, 1), make(chan error, 1)
			lock := func() error {
				go func() { locked <- d.Lock() }()
				<-inner.asked
				return migrate.ErrLockTimeout
			}
			go func() {
				if way == "Do" {
					ended <- d.Do(context.Background(), lock)
					return
				}
				lock()
				ended <- errors.Join(d.Close(), migrate.ErrLockTimeout)
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, migrate.ErrLockTimeout) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(15 * time.Second):
				close(inner.free)
				t.Fatal("it waits for the wrapped driver")
			}
			if locks.Held("migrate") {
				t.Error("the name is held")
			}
			nothing := func() error { return nil }
			if err := d.Do(t.Context(), nothing); !errors.Is(err, ErrRunning) {
				t.Errorf("Do meanwhile: %v; want ErrRunning", err)
			}
			if err := d.Lock(); !errors.Is(err, database.ErrLocked) {
				t.Errorf("Lock meanwhile: %v; want ErrLocked", err)
			}
			close(inner.free)
			if err := <-locked; !errors.Is(err, ErrClosed) {
				t.Errorf("the Lock that waited: %v; want ErrClosed", err)
			}
			if len(inner.back) != 1 {
				t.Errorf("the wrapped driver's lock was given back %d times", len(inner.back))
			}
			if err := d.Do(t.Context(), nothing); err != nil {
				t.Errorf("Do after it: %v", err)
			}
		})
	}
}

// Nobody calls Unlock after a Lock that migrate gave up on, nor after a panic.
func TestDoGivesTheLockOfTheWrappedDriverBackOnce(t *testing.T) {
	for way, fn := range map[string]func(d *Driver) error{
		"migrate gave up":  func(d *Driver) error { return errors.Join(d.Lock(), migrate.ErrLockTimeout) },
		"fn panicked":      func(d *Driver) error { panic(d.Lock()) },
		"migrate unlocked": func(d *Driver) error { return errors.Join(d.Lock(), d.Unlock()) },
	} {
		t.Run(way, func(t *testing.T) {
			locks := leaseholdtest.New(t)
			inner := &busy{stubbed(t), make(chan struct{}, 9), make(chan struct{}), make(chan struct{}, 9)}
			close(inner.free)
			d := wrap(t, inner, locks.Client, &Options{OwnLock: true})
			func() {
				defer func() { _ = recover() }()
				_ = d.Do(t.Context(), func() error { return fn(d) })
			}()
			if asked, back := len(inner.asked), len(inner.back); asked != 1 || back != 1 {
				t.Errorf("the lock was taken %d times, and given back %d times; want one each", asked, back)
			}
			if locks.Held("migrate") {
				t.Error("the name is held")
			}
		})
	}
}

// fn gives m.Up a context in the usual way: it does not wait for its end.
func TestWhatFnLeftRunningBeginsNoMigration(t *testing.T) {
	for _, way := range []string{"after Do", "during the next Do"} {
		t.Run(way, func(t *testing.T) {
			runs, running, goOn := 0, make(chan struct{}, 9), make(chan struct{})
			inner := &hooked{Driver: stubbed(t), before: func() { runs++; running <- struct{}{}; <-goOn }}
			d := wrap(t, inner, client(t, memlock.NewStore(nil)), nil)
			m, done := migrator(t, d), make(chan error, 1)
			err := d.Do(t.Context(), func() error {
				go func() { done <- m.Up() }()
				<-running
				return context.Canceled
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Do: %v; want what fn returned", err)
			}
			end := func() error {
				close(goOn)
				if err := <-done; !errors.Is(err, leasehold.ErrLost) {
					t.Errorf("Up: %v; want ErrLost", err)
				}
				return nil
			}
			if way == "after Do" {
				_ = end()
			} else if err := d.Do(t.Context(), end); err != nil {
				t.Errorf("the next Do: %v", err)
			}
			// The one that ran has ended, and says so.
			if at, dirty, err := d.Version(); runs != 1 || at != 1 || dirty || err != nil {
				t.Errorf("%d migrations ran, version %d, dirty %v, %v; want one, version 1, clean", runs, at, dirty, err)
			}
			if err := d.Do(t.Context(), migrator(t, d).Up); err != nil || runs != 3 {
				t.Errorf("another Migrate: %v, %d migrations ran in all; want three", err, runs)
			}
		})
	}
}

func TestAReleaseThatIsNotConfirmedIsNoError(t *testing.T) {
	locks := leaseholdtest.New(t)
	d := wrap(t, stubbed(t), locks.Client, nil)
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	locks.FailEngine(errors.New("down"))
	if err := d.Unlock(); err != nil {
		t.Errorf("Unlock: %v; want nil: the migrations were locked to their end", err)
	}
}

func TestLockUnderALostDoIsRefused(t *testing.T) {
	locks := leaseholdtest.New(t)
	d := wrap(t, stubbed(t), locks.Client, nil)
	err := d.Do(t.Context(), func() error {
		locks.Lose("migrate")
		if err := d.Lock(); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("Lock: %v; want ErrLost", err)
		}
		if err := d.Drop(); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("Drop: %v; want ErrLost", err)
		}
		return nil
	})
	if !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("Do: %v; want ErrLost", err)
	}
}

func TestAPanicUnderDoGivesTheNameBack(t *testing.T) {
	locks := leaseholdtest.New(t)
	d := wrap(t, stubbed(t), locks.Client, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = d.Do(t.Context(), func() error { panic("mine") })
	}()
	if locks.Held("migrate") {
		t.Error("the name is held after a panic")
	}
	if err := d.Do(t.Context(), func() error { return nil }); err != nil {
		t.Errorf("Do after a panic: %v", err)
	}
}

// opener is a driver that can be opened.
type opener struct{ database.Driver }

func (o opener) Open(string) (database.Driver, error) { return o.Driver, nil }

func TestWhatOpenOpensHasTheOptions(t *testing.T) {
	locks := leaseholdtest.New(t)
	release := locks.Block("migrate")
	defer release()
	opened, err := wrap(t, opener{stubbed(t)}, locks.Client, &Options{Wait: time.Second}).Open("stub://")
	if err != nil {
		t.Fatal(err)
	}
	if got := opened.(*Driver).o.Wait; got != time.Second {
		t.Errorf("Wait is %v; want 1 s", got)
	}
	if err := opened.Lock(); !errors.Is(err, database.ErrLocked) {
		t.Errorf("Lock of a held name: %v; want ErrLocked", err)
	}
}
