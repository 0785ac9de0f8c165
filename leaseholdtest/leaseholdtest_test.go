package leaseholdtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"leasehold"
	"leasehold/leaseholdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both runs f outside and inside a bubble.
func both(t *testing.T, f func(t *testing.T)) {
	t.Run("real time", f)
	t.Run("synctest", func(t *testing.T) { synctest.Test(t, f) })
}

func TestLoseIsSeenAtOnce(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		err := locks.Do(t.Context(), "x", func(ctx context.Context, l *leasehold.Lease) error {
			if !locks.Held("x") {
				t.Error("not held")
			}
			locks.Lose("x")
			if l.Valid() || !errors.Is(context.Cause(ctx), leasehold.ErrLost) {
				t.Errorf("valid %v, cause %v", l.Valid(), context.Cause(ctx))
			}
			if locks.Held("x") {
				t.Error("still held")
			}
			return nil
		})
		if !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("Do: %v", err)
		}
	})
}

func TestBlockKeepsOthersOut(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		release := locks.Block("x")
		if _, err := locks.TryLock(t.Context(), "x"); !errors.Is(err, leasehold.ErrHeld) {
			t.Error(err)
		}
		release()
		l, err := locks.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestFailedEngineLosesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		l, err := locks.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // renewed
		gone := errors.New("gone")
		locks.FailEngine(gone)
		if _, err := locks.TryLock(t.Context(), "y"); !errors.Is(err, leasehold.ErrUnavailable) || !errors.Is(err, gone) {
			t.Error(err)
		}
		<-l.Context().Done()
		if !errors.Is(context.Cause(l.Context()), leasehold.ErrLost) {
			t.Error(context.Cause(l.Context()))
		}
		locks.FailEngine(nil)
		if err := l.Unlock(); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
	})
}
