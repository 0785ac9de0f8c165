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
// A call that asks once takes as long as the engine does: Wait is for who waits.
func TestTryLockIsNotBoundedByWait(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				select {
				case <-time.After(100 * time.Millisecond):
					return real()
				case <-ctx.Done():
					return engine.Claim{}, ctx.Err()
				}
			}
		})
		brief := c.With(LockOptions{Wait: time.Millisecond})
		for what, try := range map[string]func() (*Lease, error){
			"TryLock":    func() (*Lease, error) { return brief.TryLock(context.Background(), "a") },
			"TryRLock":   func() (*Lease, error) { return brief.TryRLock(context.Background(), "b") },
			"TryAcquire": func() (*Lease, error) { return brief.TryAcquire(context.Background(), "c", 1, 2) },
		} {
			l, err := try()
			if err != nil {
				t.Errorf("%s: got %v, want a lease", what, err)
				continue
			}
			mustUnlock(t, l)
		}
	})
}

// Nobody who asks once waits for somebody else, whatever is asked for; and each asks for
// what its name says.
func TestEveryTryAsksOnce(t *testing.T) {
	bubble(t, func(w *world) {
		holder, _ := w.client(nil)
		c, f := w.client(nil)
		ctx := context.Background()
		l := mustLock(t, holder, "x")
		s, err := holder.Acquire(ctx, "s", 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for what, try := range map[string]func() (*Lease, error){
			"TryLock":    func() (*Lease, error) { return c.TryLock(ctx, "x") },
			"TryRLock":   func() (*Lease, error) { return c.TryRLock(ctx, "x") },
			"TryAcquire": func() (*Lease, error) { return c.TryAcquire(ctx, "s", 2, 3) },
			"TryLockAll": func() (*Lease, error) { _, err := c.TryLockAll(ctx, "a", "x"); return nil, err },
		} {
			wait, cancel := context.WithTimeout(ctx, time.Minute)
			done := async(try)
			select {
			case o := <-done:
				if !errors.Is(o.err, ErrHeld) || time.Since(began) != 0 {
					t.Errorf("%s: got %v after %v, want %v at once", what, o.err, time.Since(began), ErrHeld)
				}
			case <-wait.Done():
				t.Errorf("%s waits", what)
			}
			cancel()
		}
		f.set(func(f *faulty) {
			for _, r := range f.joins {
				if !r.NoWait {
					t.Errorf("%q was joined by somebody who waits", r.Name)
				}
			}
		})
		mustUnlock(t, l)
		mustUnlock(t, s)
	})
}

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
