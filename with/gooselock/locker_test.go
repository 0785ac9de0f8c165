package gooselock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/leaseholdtest"
	"leasehold/with/gooselock"
)

func inMemory(t *testing.T, store *memlock.Store) (*leasehold.Client, *gooselock.Locker) {
	t.Helper()
	locks, err := leasehold.New(store.Engine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	locker, err := gooselock.New(locks, "migrate", gooselock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return locks, locker
}

// revoke ends the lease of whoever holds the name.
func revoke(t *testing.T, locks *leasehold.Client) {
	t.Helper()
	queue, err := locks.Queue(context.Background(), "migrate")
	if err != nil || len(queue.Claims) == 0 {
		t.Fatalf("the queue: %v, %v; want a holder", queue.Claims, err)
	}
	if err := locks.RevokeNow(context.Background(), "migrate", queue.Claims[0].Ticket); err != nil {
		t.Fatal(err)
	}
}

func TestALossEndsTheContextOfRun(t *testing.T) {
	locks, locker := inMemory(t, memlock.NewStore(nil))
	err := locker.Run(t.Context(), func(ctx context.Context) error {
		revoke(t, locks)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(15 * time.Second):
			return errors.New("the context goes on")
		}
	})
	if !errors.Is(err, leasehold.ErrLost) || strings.Contains(err.Error(), "goes on") {
		t.Errorf("error %v; want ErrLost", err)
	}
}

func TestALockerInsideOfRunSharesItsLease(t *testing.T) {
	_, locker := inMemory(t, memlock.NewStore(nil))
	err := locker.Run(t.Context(), func(ctx context.Context) error {
		if err := locker.Lock(ctx, nil); err != nil {
			return err
		}
		return locker.Unlock(context.WithoutCancel(ctx), nil)
	})
	if err != nil {
		t.Error(err)
	}
}

// A Provider keeps its mutex while it waits for its locker, and the function of Run needs that mutex.
func TestALockBesideARunDoesNotKeepItWaiting(t *testing.T) {
	for _, c := range []struct {
		way    string
		beside func(ctx context.Context, locker *gooselock.Locker, provider chan struct{}) error
	}{
		{"both wait", nil},
		{"Run has begun", func(ctx context.Context, locker *gooselock.Locker, provider chan struct{}) error {
			failed := make(chan error)
			go func() { failed <- besideRun(ctx, locker, provider) }()
			return <-failed
		}},
		{"in its function", besideRun},
	} {
		t.Run(c.way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := leaseholdtest.New(t)
				locker, err := gooselock.New(locks.Client, "migrate", gooselock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				provider := make(chan struct{}, 1) // its mutex
				ran, failed := make(chan error, 1), make(chan error, 1)
				release := locks.Block("migrate")
				go func() {
					ran <- locker.Run(t.Context(), func(context.Context) error {
						if c.beside != nil {
							failed <- c.beside(t.Context(), locker, provider)
						}
						provider <- struct{}{}
						<-provider
						return nil
					})
				}()
				synctest.Wait() // Run waits
				if c.beside == nil {
					go func() { failed <- besideRun(t.Context(), locker, provider) }()
					synctest.Wait() // behind Run
				}
				began := time.Now()
				release()
				if err := <-ran; err != nil || time.Since(began) != 0 {
					t.Errorf("Run: %v after %v; want its end at once", err, time.Since(began))
				}
				if err := <-failed; !errors.Is(err, leasehold.ErrHeld) {
					t.Errorf("the call beside it: %v; want ErrHeld", err)
				}
			})
		})
	}
}

// besideRun is a call of a Provider that has the Locker, with a context that is not Run's.
func besideRun(ctx context.Context, locker *gooselock.Locker, provider chan struct{}) error {
	provider <- struct{}{}
	defer func() { <-provider }()
	if err := locker.Lock(ctx, nil); err != nil {
		return err
	}
	return locker.Unlock(ctx, nil)
}

// The lease comes to whoever waits first. A Run that waits has nothing that the other one needs.
func TestALockBeforeARunGetsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		locker, err := gooselock.New(locks.Client, "migrate", gooselock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		release := locks.Block("migrate")
		provider, locked, ran := make(chan struct{}, 1), make(chan error, 1), make(chan error, 1)
		go func() { locked <- besideRun(t.Context(), locker, provider) }()
		synctest.Wait()
		go func() { ran <- locker.Run(t.Context(), func(context.Context) error { return nil }) }()
		synctest.Wait()
		release()
		if err := errors.Join(<-locked, <-ran); err != nil {
			t.Error(err)
		}
	})
}

func TestUnlockAfterALossDoesNotEndTheNextLease(t *testing.T) {
	store := memlock.NewStore(nil)
	locks, locker := inMemory(t, store)
	other, _ := inMemory(t, store)
	if err := locker.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	revoke(t, locks)
	if err := locker.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := locker.Unlock(t.Context(), nil); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("Unlock of the lost lease: %v; want ErrLost", err)
	}
	if _, err := other.TryLock(t.Context(), "migrate"); !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("another client meanwhile: %v; want ErrHeld", err)
	}
	if err := locker.Unlock(t.Context(), nil); err != nil {
		t.Errorf("Unlock of the next lease: %v", err)
	}
}

func TestMisuseIsRefused(t *testing.T) {
	locks, locker := inMemory(t, memlock.NewStore(nil))
	if err := locker.Unlock(t.Context(), nil); !errors.Is(err, gooselock.ErrNotLocked) {
		t.Errorf("Unlock without Lock: %v; want ErrNotLocked", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := locker.Lock(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock with an ended context: %v; want Canceled", err)
	}
	if err := locker.SessionLock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := locker.SessionUnlock(ended, nil); err != nil {
		t.Errorf("Unlock with an ended context: %v", err)
	}
	for _, name := range []string{"", strings.Repeat("x", 4096), "a\x00b"} {
		if _, err := gooselock.New(locks, name, gooselock.Options{}); !errors.Is(err, engine.ErrName) {
			t.Errorf("a name of %d bytes: %v; want ErrName", len(name), err)
		}
	}
	if _, err := gooselock.New(locks, "migrate", gooselock.Options{Wait: -1}); err == nil {
		t.Error("a negative Wait was accepted")
	}
	if _, err := gooselock.New(nil, "migrate", gooselock.Options{}); err == nil {
		t.Error("no client was accepted")
	}
}

func TestOptionsAreThoseOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		locker, err := gooselock.New(locks.Client, "migrate", gooselock.Options{Label: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		err = locker.Run(t.Context(), func(ctx context.Context) error {
			queue, err := locks.Queue(ctx, "migrate")
			if err != nil || len(queue.Claims) != 1 || queue.Claims[0].Owner.Label != "shop" {
				t.Errorf("the queue: %v, %v; want the label shop", queue.Claims, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		own := locks.With(leasehold.LockOptions{TTL: 5 * time.Minute, Label: "billing"})
		defaults, err := gooselock.New(own, "migrate", gooselock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = defaults.Run(t.Context(), func(ctx context.Context) error {
			time.Sleep(time.Minute) // by then it was renewed
			queue, err := locks.Queue(ctx, "migrate")
			if err != nil || len(queue.Claims) != 1 || queue.Claims[0].Owner.Label != "billing" || queue.Claims[0].TTL < time.Minute {
				t.Errorf("without options: %+v, %v; want the label and the TTL of the Client", queue.Claims, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		// Without a deadline of its own it waits for 5 minutes.
		release := locks.Block("migrate")
		defer release()
		began := time.Now()
		if err := locker.Lock(t.Context(), nil); !errors.Is(err, leasehold.ErrHeld) || time.Since(began) != 5*time.Minute {
			t.Errorf("Lock of a held name: %v after %v; want ErrHeld after 5 min", err, time.Since(began))
		}
		if _, err := gooselock.New(locks.Client, "migrate", gooselock.Options{TTL: 1}); err == nil {
			t.Error("a TTL of 1 ns was accepted")
		}
	})
}
