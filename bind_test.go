package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest/kinds"
)

// An inner lock waits no longer than the request that asks for it, whatever holds the
// outer one.
func TestABoundContextHasTheDeadlineOfItsRequest(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		other, _ := w.client(nil)
		defer mustUnlock(t, mustLock(t, other, "inner"))
		request, done := context.WithTimeout(context.Background(), 2*time.Second)
		defer done()
		outer, err := c.Lock(request, "outer")
		if err != nil {
			t.Fatal(err)
		}
		defer mustUnlock(t, outer)
		ctx, cancel := outer.Bind(request)
		defer cancel()
		began := time.Now()
		_, err = c.Lock(ctx, "inner")
		if !errors.Is(err, ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrHeld by the deadline of the request", err)
		}
		if waited := time.Since(began); waited > 3*time.Second {
			t.Errorf("it waited %v under a request of 2 s", waited)
		}
		if !outer.Valid() {
			t.Error("the outer lease ended with the request")
		}
		again, cancel := outer.Bind(context.Background())
		defer cancel()
		if _, err := c.Lock(again, "outer"); !errors.Is(err, ErrReentry) {
			t.Errorf("a lock of one's own name: got %v, want ErrReentry", err)
		}
	})
}

func TestABoundContextEndsWithWhatEndsFirst(t *testing.T) {
	for what, c := range map[string]struct {
		end   func(l *Lease, ctx context.CancelCauseFunc)
		cause error
	}{
		"the lease is lost":     {func(l *Lease, _ context.CancelCauseFunc) { revokeNow(l) }, ErrRevoked},
		"the lease is unlocked": {func(l *Lease, _ context.CancelCauseFunc) { l.Unlock() }, context.Canceled},
		"the request ends":      {func(_ *Lease, end context.CancelCauseFunc) { end(errWaited) }, errWaited},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				locks, _ := w.client(nil)
				l := mustLock(t, locks, "x")
				type key struct{}
				request, end := context.WithCancelCause(context.WithValue(context.Background(), key{}, 7))
				defer end(nil)
				ctx, cancel := l.Bind(request)
				defer cancel()
				if ctx.Err() != nil || ctx.Value(key{}) != 7 {
					t.Fatalf("before anything ended: %v, value %v", ctx.Err(), ctx.Value(key{}))
				}
				c.end(l, end)
				synctest.Wait()
				if cause := context.Cause(ctx); !errors.Is(cause, c.cause) {
					t.Errorf("got the cause %v, want %v", cause, c.cause)
				}
				late, cancel := l.Bind(context.Background())
				defer cancel()
				if over := !l.Valid(); over != (late.Err() != nil) {
					t.Errorf("the lease is over: %v; a context bound since has ended: %v", over, late.Err())
				}
				l.Unlock()
			})
		})
	}
}

func revokeNow(l *Lease) {
	c := &Client{core: l.core}
	c.RevokeNow(context.Background(), l.Name(), l.Token().Ticket())
}

// Whoever binds to a lease that is over learns why, whether anybody did before.
func TestAContextThatIsBoundTooLateSaysWhy(t *testing.T) {
	for what, bound := range map[string]bool{"the first": false, "one more": true} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, _ := w.client(nil)
				l := mustLock(t, c, "x")
				if bound {
					_, cancel := l.Bind(context.Background())
					defer cancel()
				}
				revokeNow(l)
				synctest.Wait()
				late, cancel := l.Bind(context.Background())
				defer cancel()
				if cause := context.Cause(late); !errors.Is(cause, ErrRevoked) {
					t.Errorf("got the cause %v, want %v", cause, ErrRevoked)
				}
				if err := l.Unlock(); !errors.Is(err, ErrRevoked) {
					t.Errorf("Unlock: got %v, want %v", err, ErrRevoked)
				}
			})
		})
	}
}

// What is bound to several leases ends with the first that is lost, for its reason, and
// with Unlock.
func TestAContextThatIsBoundToAllEndsWithTheFirst(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		all, err := c.LockAll(context.Background(), "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := all.Bind(context.Background())
		defer cancel()
		revokeNow(all.Leases()[1])
		synctest.Wait()
		if cause := context.Cause(ctx); !errors.Is(cause, ErrRevoked) {
			t.Errorf("one was revoked: got the cause %v, want %v", cause, ErrRevoked)
		}
		f.set(func(f *faulty) { f.renew = cutRenew })
		time.Sleep(DefaultTTL) // the other is lost as well, otherwise
		late, cancel := all.Bind(context.Background())
		defer cancel()
		if cause := context.Cause(late); !errors.Is(cause, ErrRevoked) {
			t.Errorf("bound when both were lost: got the cause %v, want %v of the first", cause, ErrRevoked)
		}
		if err := all.Unlock(); !errors.Is(err, ErrRevoked) {
			t.Errorf("Unlock: got %v, want %v", err, ErrRevoked)
		}
	})
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		all, err := c.LockAll(context.Background(), "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := all.Bind(context.Background())
		defer cancel()
		if err := all.Unlock(); err != nil {
			t.Error(err)
		}
		if cause := context.Cause(ctx); cause != context.Canceled {
			t.Errorf("unlocked: got the cause %v, want %v", cause, context.Canceled)
		}
	})
}

// A lease may be held for days, and every request under it binds: nothing is kept of those
// that are over.
func TestACancelledBindLeavesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		l := mustLock(t, c, "x")
		for range 10 {
			_, cancel := l.Bind(context.Background())
			cancel()
			cancel()
		}
		if n := len(l.bound.cancels); n != 0 {
			t.Errorf("the lease keeps %d of 10 contexts that were cancelled", n)
		}
		mustUnlock(t, l)
	})
}

// What ctx holds already is held beside the lease, and the caller's claim says all of it.
func TestABoundContextHoldsBoth(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		a, b := mustLock(t, c, "a"), mustLock(t, c, "b")
		under, err := c.Lock(b.Context(), "under b")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := a.Bind(under.Context())
		defer cancel()
		for _, name := range []string{"a", "b", "under b"} {
			if _, err := c.Lock(ctx, name); !errors.Is(err, ErrReentry) {
				t.Errorf("%s: got %v, want ErrReentry", name, err)
			}
		}
		l, err := c.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		queue, err := c.Queue(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		want := []engine.Hold{{Name: "a", Ticket: a.Token().Ticket()}, {Name: "under b", Ticket: under.Token().Ticket()}, {Name: "b", Ticket: b.Token().Ticket()}}
		if got := queue.Claims[0].Owner.Holds; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("got the holds %v, want %v", got, want)
		}
		again, cancel := under.Bind(ctx) // held already: nothing is added
		defer cancel()
		if holding(again) != holding(ctx) {
			t.Error("a lease that ctx holds already was added again")
		}
		for _, l := range []*Lease{l, under, b, a} {
			mustUnlock(t, l)
		}
	})
}

// A cancel function frees what Bind made of a lease that goes on.
func TestABoundContextThatIsCancelledLeavesTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		both, err := c.LockAll(context.Background(), "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := both.Bind(context.Background())
		if _, err := c.Lock(ctx, "y"); !errors.Is(err, ErrReentry) {
			t.Errorf("got %v, want ErrReentry", err)
		}
		cancel()
		if ctx.Err() == nil || !both.Valid() {
			t.Errorf("cancelled: %v, the leases are valid: %v", ctx.Err(), both.Valid())
		}
		if err := both.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// Who waits for itself is told so: when it begins to wait, and when it has waited long
// enough.
func TestWhoWaitsForItsOwnProcessIsToldSo(t *testing.T) {
	for what, o := range map[string]Options{"behind a lease of its own": {}, "with a claim of its own": {NoLocalHandoff: true}} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				waiting := make(chan Event, 9)
				o.Observer = func(e Event) {
					if e.Kind == EventWaiting {
						waiting <- e
					}
				}
				c, _ := w.client(&o)
				l := mustLock(t, c, "x")
				type key struct{}
				ctx := context.WithValue(context.Background(), key{}, "a trace")
				_, err := c.With(LockOptions{Wait: time.Second}).Lock(ctx, "x")
				var held *HeldError
				if !errors.As(err, &held) || !held.Own {
					t.Errorf("got %v, want one that says that this process holds it", err)
				}
				if n := len(waiting); n != 1 {
					t.Fatalf("got %d events, want one", n)
				}
				if e := <-waiting; e.Name != "x" || e.Context.Value(key{}) != "a trace" || e.Own != !o.NoLocalHandoff {
					t.Errorf("got the event %+v, want one of x, with the caller's context", e)
				}
				if _, err := c.TryLock(ctx, "x"); !errors.Is(err, ErrHeld) || len(waiting) != 0 {
					t.Errorf("TryLock: %v, %d events", err, len(waiting))
				}
				mustUnlock(t, l)
			})
		})
	}
}

// That a call waits is told once, however often it is asked for: an engine without order
// is asked again and again, and a call asks anew where its claim says that it holds what
// it does not hold any more.
func TestACallTellsOnceThatItWaits(t *testing.T) {
	t.Run("without order", func(t *testing.T) {
		bubble(t, func(w *world) {
			r := kinds.NewRegister(w.store)
			r.PollAfter = 50 * time.Millisecond
			h, f := &received{}, &faulty{Engine: r.Engine()}
			holder, err := New(w.timed(r.Engine()), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Close()
			c, err := New(w.timed(f), &Options{Observer: h.observe})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			l := mustLock(t, holder, "x")
			waits := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
			time.Sleep(time.Second)
			mustUnlock(t, l)
			o := <-waits
			if o.err != nil {
				t.Fatal(o.err)
			}
			mustUnlock(t, o.l)
			if joins, _, _ := f.calls(); joins < 3 {
				t.Fatalf("void: %d joins", joins)
			}
			wantWaitingOnce(t, h)
		})
	})
	t.Run("with a claim that says too much", func(t *testing.T) {
		bubble(t, func(w *world) {
			h := &received{}
			a, _ := w.client(nil)
			c, f := w.client(&Options{Observer: h.observe})
			outer, x := mustLock(t, a, "outer"), mustLock(t, a, "x")
			waits := async(func() (*Lease, error) { return c.Lock(context.WithoutCancel(outer.Context()), "x") })
			synctest.Wait()
			mustUnlock(t, outer) // by somebody else than who waits
			time.Sleep(3 * deadlockAfter)
			mustUnlock(t, x)
			o := <-waits
			if o.err != nil {
				t.Fatal(o.err)
			}
			mustUnlock(t, o.l)
			if joins, _, _ := f.calls(); joins != 2 {
				t.Fatalf("void: %d joins", joins)
			}
			wantWaitingOnce(t, h)
			if e := h.of(EventHeld); len(e) != 1 || e[0].Waited < 3*deadlockAfter {
				t.Errorf("got the events %+v, want a lease that was waited for since the call began", e)
			}
		})
	})
}

func wantWaitingOnce(t *testing.T, h *received) {
	t.Helper()
	if e := h.of(EventWaiting); len(e) != 1 || e[0].Name != "x" {
		t.Errorf("got the events %+v, want one that it waits for x", e)
	}
}
