package migrate_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"leasehold"
	"leasehold/leaseholdtest"
	"leasehold/migrate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// old records what is asked of it.
type old struct {
	calls            []string
	locks            *leaseholdtest.Locks
	onLock           func(context.Context) error
	failUnlock       error
	ended, heldFirst bool
}

func (o *old) Lock(ctx context.Context) error {
	o.calls, o.heldFirst = append(o.calls, "lock"), o.locks.Held("orders")
	if o.onLock != nil {
		return o.onLock(ctx)
	}
	return nil
}

func (o *old) Unlock(ctx context.Context) error {
	_, bounded := ctx.Deadline()
	o.calls, o.ended = append(o.calls, "unlock"), ctx.Err() != nil || !bounded
	if !o.locks.Held("orders") && o.onLock == nil {
		o.calls = append(o.calls, "after the lease")
	}
	return o.failUnlock
}

func (o *old) wants(t *testing.T, calls ...string) {
	t.Helper()
	if !slices.Equal(o.calls, calls) {
		t.Errorf("the old lock: got %q, want %q", o.calls, calls)
	}
	if o.ended {
		t.Error("Unlock of the old lock got a context that had ended, or one without an end")
	}
	if o.locks.Held("orders") {
		t.Error("the lease is still held")
	}
}

func TestBothAreHeldAndReleased(t *testing.T) {
	o := &old{locks: leaseholdtest.New(t)}
	ctx, cancel := context.WithCancel(t.Context())
	err := migrate.Both(ctx, o.locks.Client, "orders", o, func(_ context.Context, l *leasehold.Lease) error {
		if !o.heldFirst || !l.Valid() || len(o.calls) != 1 {
			t.Errorf("work runs with the lease first: %t, valid: %t, calls: %q", o.heldFirst, l.Valid(), o.calls)
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	o.wants(t, "lock", "unlock")
}

func TestWhatFailsLeavesNeither(t *testing.T) {
	broken := errors.New("broken")
	t.Run("the old lock", func(t *testing.T) {
		o := &old{locks: leaseholdtest.New(t), onLock: func(context.Context) error { return broken }}
		err := migrate.Both(t.Context(), o.locks.Client, "orders", o, func(context.Context, *leasehold.Lease) error {
			t.Error("work ran")
			return nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		o.wants(t, "lock")
	})
	t.Run("the lease, while the old lock is waited for", func(t *testing.T) {
		o := &old{locks: leaseholdtest.New(t)}
		o.onLock = func(ctx context.Context) error {
			o.locks.Lose("orders")
			<-ctx.Done()
			return nil // it was obtained all the same
		}
		err := migrate.Both(t.Context(), o.locks.Client, "orders", o, func(context.Context, *leasehold.Lease) error {
			t.Error("work ran")
			return nil
		})
		if !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("got %v", err)
		}
		o.wants(t, "lock", "unlock")
	})
	t.Run("work, and the old lock's Unlock", func(t *testing.T) {
		stuck := errors.New("stuck")
		o := &old{locks: leaseholdtest.New(t), failUnlock: stuck}
		err := migrate.Both(t.Context(), o.locks.Client, "orders", o, func(context.Context, *leasehold.Lease) error { return broken })
		if !errors.Is(err, broken) || !errors.Is(err, stuck) {
			t.Errorf("got %v", err)
		}
		o.wants(t, "lock", "unlock")
	})
	t.Run("work by a panic", func(t *testing.T) {
		o := &old{locks: leaseholdtest.New(t)}
		func() {
			defer func() { _ = recover() }()
			_ = migrate.Both(t.Context(), o.locks.Client, "orders", o, func(context.Context, *leasehold.Lease) error { panic("work") })
		}()
		o.wants(t, "lock", "unlock")
	})
}
