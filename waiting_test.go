package leasehold

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

func TestWaitersHoldInTheOrderTheyCame(t *testing.T) {
	bubble(t, func(w *world) {
		var got []string
		first, _ := w.client(nil)
		l := mustLock(t, first, "x")
		done := make(chan struct{})
		for i := range 5 {
			label := fmt.Sprint(i)
			c, _ := w.client(&Options{Label: label})
			go func() {
				l, err := c.Lock(context.Background(), "x")
				if err == nil {
					got = append(got, label) // under the lock
					err = l.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		mustUnlock(t, l)
		for range 5 {
			<-done
		}
		if fmt.Sprint(got) != "[0 1 2 3 4]" {
			t.Errorf("order %v", got)
		}
	})
}

// A wake-up costs no time at all when it arrives: the bubble's clock stands
// still while anybody can run.
func TestHandOverIsHeardNotPolled(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, fb := w.client(nil)
		l := mustLock(t, a, "x")
		got := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		before := w.clock()
		_, renewsBefore, _ := fb.calls()
		mustUnlock(t, l)
		if o := <-got; o.err != nil {
			t.Fatal(o.err)
		}
		if d := w.clock() - before; d != 0 {
			t.Errorf("hand-over took %v of waiting", d)
		}
		if joins, renews, _ := fb.calls(); joins != 1 || renews != renewsBefore {
			t.Errorf("hand-over cost %d joins and %d renews, want 1 and none", joins, renews-renewsBefore)
		}
	})
}

func TestLostNotificationCostsAtMostASecond(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, fb := w.client(nil)
		l := mustLock(t, a, "x")
		fb.set(func(f *faulty) { f.deaf = true })
		got := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		time.Sleep(10*time.Second + 100*time.Millisecond)
		mustUnlock(t, l)
		before := w.clock()
		if o := <-got; o.err != nil {
			t.Fatal(o.err)
		}
		if d := w.clock() - before; d > time.Second {
			t.Errorf("held %v after there was room", d)
		}
	})
}

func TestDeadHolderIsReplacedWhenItsTimeIsUp(t *testing.T) {
	bubble(t, func(w *world) {
		dead := w.store.Engine() // joins, and is never heard of again
		_, err := dead.Join(context.Background(), engine.Request{Name: "x", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := w.client(nil)
		start := w.clock()
		l := mustLock(t, b, "x")
		if d := w.clock() - start; d < 2*time.Second || d > 2*time.Second+10*time.Millisecond {
			t.Errorf("held after %v, want right after 2 s", d)
		}
		mustUnlock(t, l)
	})
}

func TestCancelledWaitLeavesNothing(t *testing.T) {
	t.Run("while waiting", func(t *testing.T) {
		bubble(t, func(w *world) {
			a, _ := w.client(&Options{Label: "a"})
			b, _ := w.client(&Options{Label: "b"})
			l := mustLock(t, a, "x")
			ctx, cancel := context.WithCancelCause(context.Background())
			got := async(func() (*Lease, error) { return b.Lock(ctx, "x") })
			synctest.Wait()
			w.wantQueue("x", []string{"a"}, []string{"b"})
			why := errors.New("changed my mind")
			cancel(why)
			if o := <-got; !errors.Is(o.err, why) {
				t.Errorf("error %v, want the cause of the context", o.err)
			}
			synctest.Wait()
			w.wantQueue("x", []string{"a"}, nil)
			mustUnlock(t, l)
		})
	})
	t.Run("while its Join is under way and arrives late", func(t *testing.T) {
		bubble(t, func(w *world) {
			b, f := w.client(&Options{Label: "b"})
			f.set(func(f *faulty) {
				f.join = func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
					<-ctx.Done()
					real() // it was on the wire
					return engine.Claim{}, ctx.Err()
				}
			})
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if _, err := b.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			synctest.Wait()
			w.wantQueue("x", nil, nil)
		})
	})
	t.Run("and the Leave is lost: an orphan of at most its TTL", func(t *testing.T) {
		bubble(t, func(w *world) {
			a, _ := w.client(&Options{Label: "a"})
			b, f := w.client(&Options{Label: "b"})
			l := mustLock(t, a, "x")
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			f.set(func(f *faulty) { f.leave = cutLeave })
			b.Lock(ctx, "x")
			time.Sleep(claims.FirstTTL)
			w.wantQueue("x", []string{"a"}, nil)
			mustUnlock(t, l)
		})
	})
	t.Run("a sibling in the same local queue goes on waiting", func(t *testing.T) {
		bubble(t, func(w *world) {
			a, _ := w.client(nil)
			b, _ := w.client(nil)
			l := mustLock(t, a, "x")
			ctx, cancel := context.WithCancel(context.Background())
			first := async(func() (*Lease, error) { return b.Lock(ctx, "x") })
			synctest.Wait()
			second := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
			synctest.Wait()
			cancel()
			if o := <-first; !errors.Is(o.err, context.Canceled) {
				t.Error(o.err)
			}
			mustUnlock(t, l)
			o := <-second
			if o.err != nil {
				t.Fatal(o.err)
			}
			mustUnlock(t, o.l)
		})
	})
	t.Run("the sibling whose goroutine was not asking still gets an answer", func(t *testing.T) {
		bubble(t, func(w *world) {
			b, f := w.client(nil)
			hang := true
			f.set(func(f *faulty) {
				f.join = func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
					if hang {
						hang = false
						<-ctx.Done()
						return engine.Claim{}, ctx.Err()
					}
					return real()
				}
			})
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			first := async(func() (*Lease, error) { return b.Lock(ctx, "x") })
			synctest.Wait()
			second := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
			if o := <-first; o.err == nil {
				t.Error("the first was to be cancelled")
			}
			if o := <-second; o.err != nil {
				t.Fatal(o.err)
			}
		})
	})
}

func TestWaitEndsWithWhoHoldsIt(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "the report"})
		b, _ := w.client(nil)
		c, _ := w.client(nil)
		l := mustLock(t, a, "x")
		go c.With(LockOptions{Wait: time.Minute}).Lock(context.Background(), "x")
		time.Sleep(5 * time.Second)
		_, err := b.With(LockOptions{Wait: 2 * time.Second}).Lock(context.Background(), "x")
		var held *HeldError
		if !errors.As(err, &held) || !errors.Is(err, ErrHeld) {
			t.Fatalf("error %v, want a HeldError", err)
		}
		if held.Waited != 2*time.Second || len(held.By) != 1 || held.By[0].Owner.Label != "the report" || held.Ahead != 1 {
			t.Errorf("%+v", held)
		}
		if by := held.By[0]; by.ID != (engine.ID{}) || by.Ticket != l.Token().Ticket() || by.TTL <= 0 || by.Owner.Since.IsZero() {
			t.Errorf("holder %+v", by)
		}
		mustUnlock(t, l)
	})
}

// What waits is pooled: what one call had waited for is nothing to the next.
func TestACallIsToldWhatAnotherWaitedFor(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		c, _ := w.client(nil)
		l := mustLock(t, a, "x")
		brief := LockOptions{Wait: time.Second}
		for range 20 { // under -race a pool forgets some of what it is given
			if _, err := b.With(brief).Lock(context.Background(), "x"); !errors.Is(err, ErrHeld) {
				t.Fatal(err)
			}
			behind := async(func() (*Lease, error) { return c.With(brief).Lock(context.Background(), "x") })
			synctest.Wait()
			_, err := b.TryLock(context.Background(), "x")
			var held *HeldError
			if !errors.As(err, &held) {
				t.Fatal(err)
			}
			if held.Waited != 0 || held.Ahead != 1 {
				t.Fatalf("waited %v with %d ahead; want no wait and one ahead", held.Waited, held.Ahead)
			}
			<-behind
		}
		mustUnlock(t, l)
	})
}

func TestTryLockNeverWaits(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, fb := w.client(&Options{Label: "b"})
		start := w.clock()
		l, err := a.TryLock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Client{a, b} {
			if _, err := c.TryLock(context.Background(), "x"); !errors.Is(err, ErrHeld) {
				t.Errorf("error %v, want ErrHeld", err)
			}
		}
		mustUnlock(t, l)
		fb.set(func(f *faulty) {
			f.join = func(context.Context, engine.Request, func() (engine.Claim, error)) (engine.Claim, error) {
				return engine.Claim{}, errCut
			}
		})
		if _, err := b.TryLock(context.Background(), "x"); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errCut) {
			t.Errorf("error %v, want ErrUnavailable with its cause", err)
		}
		if d := w.clock() - start; d != 0 {
			t.Errorf("took %v", d)
		}
		// What arrived although its answer was lost is left again.
		fb.set(func(f *faulty) {
			f.join = func(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				real()
				return engine.Claim{}, errCut
			}
		})
		if _, err := b.TryLock(context.Background(), "x"); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		synctest.Wait()
		w.wantQueue("x", nil, nil)
		fb.set(func(f *faulty) { f.join = nil })
		if l, err = b.TryLock(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		// What a TryLock got is handed off like any other.
		got := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		mustUnlock(t, l)
		if o := <-got; o.err != nil || o.l.Token() != l.Token()+1 {
			t.Errorf("token %v after %v, error %v", o.l.Token(), l.Token(), o.err)
		}
	})
}

func TestUnreachableEngine(t *testing.T) {
	cut := func(context.Context, engine.Request, func() (engine.Claim, error)) (engine.Claim, error) {
		return engine.Claim{}, errCut
	}
	t.Run("Lock asks again with the same ID until it is back", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			f.set(func(f *faulty) { f.join = cut })
			got := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
			time.Sleep(10 * time.Second)
			f.set(func(f *faulty) { f.join = nil })
			if o := <-got; o.err != nil {
				t.Fatal(o.err)
			}
			if len(f.joins) < 5 || len(f.joins) > 60 {
				t.Errorf("%d tries in 10 s", len(f.joins))
			}
			for _, r := range f.joins {
				if r.ID != f.joins[0].ID {
					t.Fatal("asked again with another ID: two claims of one caller")
				}
			}
		})
	})
	t.Run("until ctx ends", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			f.set(func(f *faulty) { f.join = cut })
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := c.Lock(ctx, "x")
			for _, want := range []error{ErrUnavailable, errCut, context.DeadlineExceeded} {
				if !errors.Is(err, want) {
					t.Errorf("error %v is not %v", err, want)
				}
			}
		})
	})
	t.Run("until Wait ends", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			f.set(func(f *faulty) { f.join = cut })
			start := w.clock()
			_, err := c.With(LockOptions{Wait: 5 * time.Second}).Lock(context.Background(), "x")
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, errCut) || errors.Is(err, ErrHeld) {
				t.Error(err)
			}
			if d := w.clock() - start; d != 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	})
	t.Run("FailFast: at once", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(&Options{FailFast: true})
			f.set(func(f *faulty) { f.join = cut })
			start := w.clock()
			if _, err := c.Lock(context.Background(), "x"); !errors.Is(err, ErrUnavailable) || !errors.Is(err, errCut) {
				t.Error(err)
			}
			if d := w.clock() - start; d != 0 {
				t.Errorf("took %v", d)
			}
		})
	})
	t.Run("a slow engine is asked for more time", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			f.set(func(f *faulty) {
				// Commits at once, answers after 2.99 s: no trust is left of 3 s.
				f.join = func(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
					got, err := real()
					time.Sleep(2990 * time.Millisecond)
					return got, err
				}
				f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					got, err := real()
					time.Sleep(2990 * time.Millisecond)
					return got, err
				}
			})
			l := mustLock(t, c, "x")
			if !l.Valid() || l.Remaining() < 10*time.Second {
				t.Errorf("delivered with %v left", l.Remaining())
			}
			mustUnlock(t, l)
			mustUnlock(t, mustLock(t, c, "y"))
			if last := f.joins[len(f.joins)-1].WaitTTL; last != 2*claims.FirstTTL {
				t.Errorf("next Join asks for %v, want %v", last, 2*claims.FirstTTL)
			}
		})
	})
}

func TestRefusalsAreFinal(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		ctx := context.Background()
		held, err := c.Acquire(ctx, "sem", 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]struct {
			f    func() (*Lease, error)
			want error
		}{
			"empty name":       {func() (*Lease, error) { return c.Lock(ctx, "") }, engine.ErrName},
			"NUL":              {func() (*Lease, error) { return c.Lock(ctx, "a\x00b") }, engine.ErrName},
			"not UTF-8":        {func() (*Lease, error) { return c.Lock(ctx, "\xff") }, engine.ErrName},
			"513 bytes":        {func() (*Lease, error) { return c.Lock(ctx, string(make([]byte, 513))) }, engine.ErrName},
			"other limit":      {func() (*Lease, error) { return c.Acquire(ctx, "sem", 1, 4) }, engine.ErrLimit},
			"lock a semaphore": {func() (*Lease, error) { return c.Lock(ctx, "sem") }, engine.ErrLimit},
			"no permits":       {func() (*Lease, error) { return c.Acquire(ctx, "s", 0, 4) }, engine.ErrRefused},
			"negative permits": {func() (*Lease, error) { return c.Acquire(ctx, "s", -1, 4) }, engine.ErrRefused},
			"over the limit":   {func() (*Lease, error) { return c.Acquire(ctx, "s", 5, 4) }, engine.ErrRefused},
			"no limit":         {func() (*Lease, error) { return c.Acquire(ctx, "s", 1, 0) }, engine.ErrRefused},
			"negative TTL":     {func() (*Lease, error) { return c.With(LockOptions{TTL: -1}).Lock(ctx, "s") }, engine.ErrRefused},
			"a week":           {func() (*Lease, error) { return c.With(LockOptions{TTL: 7 * 24 * time.Hour}).Lock(ctx, "s") }, engine.ErrRefused},
		} {
			if _, err := call.f(); !errors.Is(err, call.want) {
				t.Errorf("%s: error %v, want %v", name, err, call.want)
			}
		}
		joins, _, _ := f.calls()
		if joins > 1+6 {
			t.Errorf("%d joins: a refusal was retried", joins)
		}
		mustUnlock(t, held)
		for _, ttl := range []time.Duration{-time.Second, time.Millisecond, 25 * time.Hour} {
			if _, err := New(w.store.Engine(), &Options{TTL: ttl}); err == nil {
				t.Errorf("New accepted TTL %v", ttl)
			}
		}
		if _, err := New(w.store.Engine(), &Options{Require: engine.Guarantees{Scope: engine.ScopeCluster}}); !errors.Is(err, ErrRequire) {
			t.Errorf("Require: %v", err)
		}
	})
}

// Where only the renewal is missing that proves what was granted, nobody else holds the
// name, and the engine did not answer in time.
func TestAGrantThatTheEngineDoesNotProveIsNoHolder(t *testing.T) {
	for name, o := range map[string]LockOptions{
		"NoRenew":  {NoRenew: true},
		"Detached": {Detached: true},
		"MinHold":  {MinHold: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, f := w.client(nil)
				f.set(func(f *faulty) { f.renew = hangRenew })
				o.Wait = 2 * time.Second
				if _, err := c.With(o).Lock(context.Background(), "x"); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrHeld) {
					t.Errorf("error %v, want ErrUnavailable", err)
				}
			})
		})
	}
	t.Run("handed over", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) { f.renew = hangRenew })
			next := async(func() (*Lease, error) {
				return c.With(LockOptions{Wait: claims.FirstTTL * 5 / 6}).Lock(context.Background(), "x")
			})
			time.Sleep(claims.FirstTTL * 2 / 3) // too little is left of the first TTL to begin with
			mustUnlock(t, l)
			if o := <-next; !errors.Is(o.err, ErrUnavailable) || errors.Is(o.err, ErrHeld) {
				t.Errorf("error %v, want ErrUnavailable", o.err)
			}
		})
	})
}

// A claim whose caller gave up may get its turn before it is left.
func TestACallerThatGaveUpIsNotNamedAsTheHolder(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, f := w.client(nil)
		l := mustLock(t, a, "x")
		left := make(chan struct{})
		f.set(func(f *faulty) {
			f.leave = func(_ context.Context, _ []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				<-left
				return real()
			}
			f.line = func(_ context.Context, real func() (engine.Queue, error)) (engine.Queue, error) {
				mustUnlock(t, l)
				return real()
			}
		})
		_, err := b.With(LockOptions{Wait: time.Second}).Lock(context.Background(), "x")
		close(left)
		held, ok := errors.AsType[*HeldError](err)
		if !ok || len(held.By) != 0 || held.Own {
			t.Errorf("%v, want an ErrHeld that names nobody", err)
		}
	})
}
