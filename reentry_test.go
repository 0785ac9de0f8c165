package leasehold

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// reentrant is c with the choice to count up.
func reentrant(c *Client) *Client { return c.With(LockOptions{Reentrant: true}) }

// Every way to ask for a name that the caller's own context holds, however it
// holds it, is answered at once: whoever waited would wait for itself.
func TestAskingForOnesOwnNameFailsAtOnce(t *testing.T) {
	lock := func(ctx context.Context, c *Client) (*Lease, error) { return c.Lock(ctx, "x") }
	rlock := func(ctx context.Context, c *Client) (*Lease, error) { return c.RLock(ctx, "x") }
	permit := func(ctx context.Context, c *Client) (*Lease, error) { return c.Acquire(ctx, "x", 1, 3) }
	asks := map[string]func(context.Context, *Client) error{
		"Lock":    func(ctx context.Context, c *Client) error { _, err := lock(ctx, c); return err },
		"TryLock": func(ctx context.Context, c *Client) error { _, err := c.TryLock(ctx, "x"); return err },
		"RLock":   func(ctx context.Context, c *Client) error { _, err := rlock(ctx, c); return err },
		"Acquire": func(ctx context.Context, c *Client) error { _, err := permit(ctx, c); return err },
		"LockAll": func(ctx context.Context, c *Client) error { _, err := c.LockAll(ctx, "a", "x"); return err },
		"Do": func(ctx context.Context, c *Client) error {
			return c.Do(ctx, "x", func(context.Context, *Lease) error { t.Error("it runs"); return nil })
		},
		"under another lease": func(ctx context.Context, c *Client) error {
			other, err := c.Lock(ctx, "other")
			if err != nil {
				return err
			}
			defer other.Unlock()
			_, err = lock(other.Context(), c)
			return err
		},
	}
	for holds, hold := range map[string]func(context.Context, *Client) (*Lease, error){"Lock": lock, "RLock": rlock, "Acquire": permit} {
		for name, ask := range asks {
			t.Run(name+" under one's own "+holds, func(t *testing.T) {
				bubble(t, func(w *world) {
					c, f := w.client(&Options{Label: "c"})
					l, err := hold(context.Background(), c)
					if err != nil {
						t.Fatal(err)
					}
					start := w.clock()
					err = ask(l.Context(), c)
					if !errors.Is(err, ErrReentry) {
						t.Fatalf("error %v, want ErrReentry", err)
					}
					would := !errors.Is(err, ErrUpgrade) && !errors.Is(err, engine.ErrLimit)
					if would != strings.Contains(err.Error(), "LockOptions.Reentrant") {
						t.Errorf("the choice is to be named where it would help: %v", err)
					}
					if d := w.clock() - start; d != 0 {
						t.Errorf("it took %v", d)
					}
					for _, r := range f.joins[1:] {
						if r.Name == "x" {
							t.Error("it asked the engine")
						}
					}
					if !l.Valid() {
						t.Error("asking ended the lease")
					}
					mustUnlock(t, l)
					synctest.Wait()
					w.wantQueue("x", nil, nil)
					w.wantQueue("a", nil, nil)
					mustUnlock(t, mustLock(t, c, "x"))
				})
			})
		}
	}
}

// Go's locks are not re-entrant: goroutines that were handed the context of a
// lease do not get in together because of it.
func TestGoroutinesWithOneLeasesContextDoNotShareTheName(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		l := mustLock(t, c, "x")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if again, err := c.Lock(l.Context(), "x"); !errors.Is(err, ErrReentry) {
					t.Errorf("in with lease %v, error %v", again, err)
				}
			})
		}
		wg.Wait()
		// A context that does not come from the lease queues.
		got := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		if len(got) > 0 {
			t.Error("in together")
		}
		mustUnlock(t, l)
		mustUnlock(t, (<-got).l)
	})
}

// A permit of a limit is a permit: that of Lock and RLock is no semaphore's.
func TestAPermitOfTheLimitMaxIsRefused(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		l := mustLock(t, c, "x")
		for _, client := range []*Client{c, reentrant(c)} {
			for _, ctx := range []context.Context{context.Background(), l.Context()} {
				for _, permits := range []int32{1, 2, engine.Max} {
					for _, acquire := range []func(context.Context, string, int32, int32) (*Lease, error){client.Acquire, client.TryAcquire} {
						_, err := acquire(ctx, "x", permits, engine.Max)
						if !errors.Is(err, engine.ErrLimit) || !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "RLock") {
							t.Fatalf("%d of Max: %v", permits, err)
						}
					}
				}
			}
		}
		if j, _, _ := f.calls(); j != 1 {
			t.Errorf("%d joins", j)
		}
		mustUnlock(t, l)
		w.wantQueue("x", nil, nil)
		for range 100 { // none of them left anything of a re-entry behind
			mustUnlock(t, mustLock(t, c, "x"))
		}
	})
}

// With Reentrant a caller takes further permits, but never waits for those that
// it holds itself.
func TestReentrantPermitsAreEachTheirOwn(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{Label: "c"})
		c = reentrant(c)
		other, _ := w.client(&Options{Label: "other"})
		two, err := c.Acquire(context.Background(), "s", 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		one, err := c.Acquire(two.Context(), "s", 1, 4)
		if err != nil || one.Token().Ticket() == two.Token().Ticket() {
			t.Fatalf("no permit of its own: %v", err)
		}
		joins, _, _ := f.calls()
		start := w.clock()
		_, err = c.Acquire(one.Context(), "s", 2, 4)
		if !errors.Is(err, ErrReentry) || !strings.Contains(err.Error(), "holds 3 of 4") {
			t.Errorf("5 permits of 4: %v", err)
		}
		if j, _, _ := f.calls(); j != joins || w.clock() != start {
			t.Error("it asked or waited")
		}
		// What others hold is worth waiting for.
		theirs, err := other.Acquire(context.Background(), "s", 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		got := async(func() (*Lease, error) { return c.Acquire(one.Context(), "s", 1, 4) })
		synctest.Wait()
		w.wantQueue("s", []string{"c", "c", "other"}, []string{"c"})
		mustUnlock(t, theirs)
		o := <-got
		if o.err != nil {
			t.Fatal(o.err)
		}
		mustUnlock(t, o.l)
		// A permit that was given back counts no more.
		mustUnlock(t, one)
		if one, err = c.Acquire(context.WithoutCancel(one.Context()), "s", 2, 4); err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, one)
		mustUnlock(t, two)
		w.wantQueue("s", nil, nil)
	})
}

// Users of one name that disagree on its limit are told so, also by themselves.
func TestReentryWithAnotherLimitIsRefused(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		c = reentrant(c)
		l := mustLock(t, c, "x")
		p, err := c.Acquire(context.Background(), "s", 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		joins, _, _ := f.calls()
		for _, ask := range []func() (*Lease, error){
			func() (*Lease, error) { return c.Acquire(l.Context(), "x", 1, 3) },
			func() (*Lease, error) { return c.Lock(p.Context(), "s") },
			func() (*Lease, error) { return c.RLock(p.Context(), "s") },
			func() (*Lease, error) { return c.Acquire(p.Context(), "s", 1, 4) },
		} {
			var limit *engine.LimitError
			if _, err := ask(); !errors.As(err, &limit) || !errors.Is(err, engine.ErrLimit) || !errors.Is(err, ErrReentry) {
				t.Errorf("error %v, want ErrLimit", err)
			}
		}
		if j, _, _ := f.calls(); j != joins {
			t.Error("it asked the engine")
		}
		mustUnlock(t, p)
		mustUnlock(t, l)
	})
}

// RLock under one's own Lock is no downgrade: others come in when the last
// handle has ended.
func TestRLockUnderOnesOwnLockStaysExclusive(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		other, _ := w.client(nil)
		l := mustLock(t, c, "x")
		r, err := reentrant(c).RLock(l.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		got := async(func() (*Lease, error) { return other.RLock(context.Background(), "x") })
		synctest.Wait()
		mustUnlock(t, l)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("another reader is in")
		}
		mustUnlock(t, r)
		mustUnlock(t, (<-got).l)
	})
}

// A lease that was lost can neither be counted up nor waited for by the context
// that still has it: its claim stands until it is unlocked or its TTL is over.
func TestALostLeaseIsNotReentered(t *testing.T) {
	for _, again := range []bool{false, true} {
		bubble(t, func(w *world) {
			c, f := w.client(&Options{TTL: time.Second})
			c = c.With(LockOptions{Reentrant: again})
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) { f.renew = cutRenew })
			ctx := context.WithoutCancel(l.Context())
			time.Sleep(l.Remaining()) // to the very moment: the keeper may not have run
			start := w.clock()
			for range 2 {
				if _, err := c.Lock(ctx, "x"); !errors.Is(err, ErrLost) {
					t.Errorf("reentrant %v: error %v, want ErrLost", again, err)
				}
			}
			if d := w.clock() - start; d != 0 {
				t.Errorf("it took %v", d)
			}
			if err := l.Unlock(); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			f.set(func(f *faulty) { f.renew = nil })
			next, err := c.Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			mustUnlock(t, next)
		})
	}
}

// A handle that was unlocked while another kept its hold says nothing of how the hold was
// lost after that.
func TestAHoldThatWasLostIsNotEnteredAgainThroughAnEndedHandle(t *testing.T) {
	asks := map[string]func(context.Context, *Client) (*Lease, error){
		"Lock":    func(ctx context.Context, c *Client) (*Lease, error) { return c.Lock(ctx, "x") },
		"TryLock": func(ctx context.Context, c *Client) (*Lease, error) { return c.TryLock(ctx, "x") },
		"RLock":   func(ctx context.Context, c *Client) (*Lease, error) { return c.RLock(ctx, "x") },
		"Do": func(ctx context.Context, c *Client) (*Lease, error) {
			return nil, c.Do(ctx, "x", func(context.Context, *Lease) error { t.Error("it runs"); return nil })
		},
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, _ := w.client(nil)
				first := mustLock(t, c, "x")
				other, err := c.Lock(first.Context(), "other") // its context says that x is held, whoever unlocks first
				if err != nil {
					t.Fatal(err)
				}
				second, err := reentrant(c).Lock(first.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				mustUnlock(t, first)
				revokeNow(second)
				<-second.Context().Done()
				for _, c := range []*Client{c, reentrant(c)} {
					if l, err := ask(other.Context(), c); l != nil || !errors.Is(err, ErrRevoked) {
						t.Errorf("lease %v, error %v, want none and ErrRevoked", l, err)
					}
				}
				if err := second.Unlock(); !errors.Is(err, ErrRevoked) {
					t.Error(err)
				}
				mustUnlock(t, other)
			})
		})
	}
}
