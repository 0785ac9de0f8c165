package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// TestTryLockSaysWhyItsContextEnded: a caller who cancels its own one try has
// learned nothing of the engine, and the cause is the caller's.
func TestTryLockSaysWhyItsContextEnded(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				return engine.Claim{}, ctx.Err()
			}
		})
		mine := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(10*time.Millisecond, func() { cancel(mine) })
		_, err := c.TryLock(ctx, "x")
		if !errors.Is(err, mine) || errors.Is(err, ErrUnavailable) {
			t.Errorf("cancelled: %v", err)
		}
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer stop()
		_, err = c.TryLock(ctx, "x")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("at its deadline: %v", err)
		}
	})
}

// TestTryLockReturnsWhenWhatIsKeptCannotBeGivenBack: the Leave of what this
// client keeps is not the caller's to wait for longer than its context lasts.
func TestTryLockReturnsWhenWhatIsKeptCannotBeGivenBack(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{IdleTimeout: time.Minute})
		l, err := c.RLock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l)
		f.set(func(f *faulty) {
			f.leave = func(ctx context.Context, _ []engine.Claim, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		result := async(func() (*Lease, error) { return c.TryLock(ctx, "x") })
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case o := <-result:
			if o.err == nil {
				t.Error("obtained, though cancelled")
			}
		default:
			t.Error("still waits")
			<-result
		}
		f.set(func(f *faulty) { f.leave = nil })
	})
}
