package leasehold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// The trust formula, as a test says it: TTL less 1 % less 7 ms.
func trustOf(ttl time.Duration) time.Duration { return ttl - ttl/100 - 7*time.Millisecond }

func TestLeaseIsLostAtItsDeadlineAndNotLater(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 10 * time.Second})
		l := mustLock(t, c, "x")
		f.set(func(f *faulty) { f.renew = cutRenew })
		start := w.clock()
		// Nothing but the Join ever succeeded: 3 s.
		want := trustOf(3 * time.Second)
		time.Sleep(want - time.Nanosecond)
		synctest.Wait()
		if !l.Valid() || l.Context().Err() != nil {
			t.Fatalf("lost after %v, %v early", w.clock()-start, want-(w.clock()-start))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if l.Valid() {
			t.Error("still valid at its deadline")
		}
		if err := context.Cause(l.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("cause %v, want ErrLost", err)
		}
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock %v, want ErrLost", err)
		}
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("second Unlock %v, want ErrLost", err)
		}
	})
}

func TestRenewalsKeepALeaseForHours(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 10 * time.Second})
		l := mustLock(t, c, "x")
		time.Sleep(3 * time.Hour)
		if !l.Valid() || l.Context().Err() != nil {
			t.Fatal("lost although every renewal succeeded")
		}
		if _, renews, _ := f.calls(); renews > 3*3600/3+10 {
			t.Errorf("%d renewals in 3 h at TTL 10 s", renews)
		}
		mustUnlock(t, l)
	})
}

func TestSlowRenewalDoesNotStretchTrust(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 3 * time.Second})
		l := mustLock(t, c, "x")
		// Each Renew commits at once and answers two seconds later. Trust must
		// count from the question.
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				got, err := real()
				time.Sleep(2 * time.Second)
				return got, err
			}
		})
		time.Sleep(2*time.Second + claims.RaiseAfter)
		synctest.Wait()
		asked := claims.RaiseAfter
		left := trustOf(3*time.Second) - (2*time.Second + claims.RaiseAfter - asked)
		if got := l.Remaining(); got > left {
			t.Errorf("%v remaining after a renewal that took 2 s, want at most %v", got, left)
		}
	})
}

func TestAnswerAfterTheDeadlineDoesNotRevive(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 3 * time.Second})
		l := mustLock(t, c, "x")
		release := make(chan struct{})
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				got, err := real()
				<-release
				return got, err
			}
		})
		time.Sleep(trustOf(3 * time.Second))
		synctest.Wait()
		close(release)
		synctest.Wait()
		if l.Valid() || !errors.Is(context.Cause(l.Context()), ErrLost) {
			t.Fatal("an answer that came too late brought a lost lease back")
		}
		f.set(func(f *faulty) { f.renew = nil })
		time.Sleep(10 * time.Second)
		if l.Valid() {
			t.Fatal("loss is not sticky")
		}
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
	})
}

// A process that was stopped sees the clock jump before any timer ran.
func TestFirstUseAfterAPauseSeesLoss(t *testing.T) {
	bubble(t, func(w *world) {
		var jump atomic.Int64
		clock := w.clock
		w.clock = func() time.Duration { return clock() + time.Duration(jump.Load()) }
		c, _ := w.client(&Options{TTL: 3 * time.Second})
		l := mustLock(t, c, "x")
		jump.Store(int64(3 * time.Second))
		if l.Valid() {
			t.Error("valid after the TTL passed in a pause")
		}
		jump.Store(0)
		if l.Valid() {
			t.Error("loss is not sticky")
		}
	})
}

func TestUnlockIsTheTruth(t *testing.T) {
	t.Run("the engine forgot the claim: lost", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l := mustLock(t, c, "x")
			f.Engine.Leave(context.Background(), []engine.Claim{{Name: "x", ID: f.joins[0].ID}})
			if err := l.Unlock(); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	})
	t.Run("the answer is lost: unknown, and given up later", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(&Options{Label: "c"})
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) { f.leave = cutLeave })
			if err := l.Unlock(); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrLost) {
				t.Error(err)
			}
			w.wantQueue("x", []string{"c"}, nil)
			f.set(func(f *faulty) { f.leave = nil })
			time.Sleep(2 * time.Second)
			w.wantQueue("x", nil, nil)
		})
	})
	t.Run("unknown, then locked again: the new claim replaces the orphan", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(&Options{Label: "c"})
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) { f.leave = cutLeave })
			l.Unlock()
			l = mustLock(t, c, "x") // would wait for itself for a whole TTL
			if f.joins[1].Replaces != f.joins[0].ID {
				t.Error("the second Join does not replace the unclear first claim")
			}
			f.set(func(f *faulty) { f.leave = nil })
			mustUnlock(t, l)
		})
	})
	t.Run("an engine that hangs: bounded", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) {
				f.leave = func(ctx context.Context, _ []engine.Claim, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			})
			start := w.clock()
			if err := l.Unlock(); !errors.Is(err, ErrUnknown) {
				t.Error(err)
			}
			if d := w.clock() - start; d > releaseBound {
				t.Errorf("Unlock took %v", d)
			}
		})
	})
	t.Run("unlocking twice at once: one answer", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) {
				f.leave = func(ctx context.Context, _ []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					time.Sleep(time.Second)
					return nil, errCut
				}
			})
			second := make(chan error, 1)
			go func() { time.Sleep(time.Millisecond); second <- l.Unlock() }()
			first := l.Unlock()
			if err := <-second; !errors.Is(err, ErrUnknown) || !errors.Is(first, ErrUnknown) {
				t.Errorf("first %v, second %v", first, err)
			}
		})
	})
}
