package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// The life of a lease, of several at once, and of one that was handed over, as
// contexts and errors tell it.

func TestTheContextOfALease(t *testing.T) {
	t.Run("outlives the one that bounded the waiting", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			l, err := c.With(LockOptions{Wait: time.Second}).Lock(ctx, "x")
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if err := l.Context().Err(); err != nil {
				t.Error(err)
			}
			mustUnlock(t, l)
		})
	})
	t.Run("ends with Unlock", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			l := mustLock(t, c, "x")
			ctx := l.Context()
			mustUnlock(t, l)
			if ctx.Err() == nil || l.Context().Err() == nil {
				t.Error("it goes on")
			}
		})
	})
	t.Run("ends with the loss, and says why", func(t *testing.T) {
		bubble(t, func(w *world) {
			h := &received{}
			c, _ := w.client(&Options{Observer: h.observe})
			l := mustLock(t, c, "x")
			ctx := l.Context()
			if err := c.Revoke(context.Background(), "x", l.Token().Ticket()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !errors.Is(context.Cause(ctx), ErrRevoked) {
				t.Error(context.Cause(ctx))
			}
			if e := h.of(EventLost); len(e) != 1 || !errors.Is(e[0].Err, ErrRevoked) {
				t.Errorf("%+v", e)
			}
			if err := l.Unlock(); !errors.Is(err, ErrRevoked) {
				t.Error(err)
			}
		})
	})
	t.Run("ends at its trusted-until, and not a moment later", func(t *testing.T) {
		bubble(t, func(w *world) {
			jump := time.Duration(0)
			real := w.clock
			w.clock = func() time.Duration { return real() + jump }
			c, _ := w.client(nil)
			l := mustLock(t, c, "x")
			synctest.Wait() // nobody else looks at the clock now
			jump = l.Remaining()
			if l.Valid() {
				t.Error("valid")
			}
			if err := l.Unlock(); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	})
}

func TestTheContextOfAll(t *testing.T) {
	ctx := context.Background()
	t.Run("outlives the one that bounded the waiting, and ends with Unlock", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			short, cancel := context.WithTimeout(ctx, time.Second)
			all, err := c.LockAll(short, "a", "b")
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if err := all.Context().Err(); err != nil {
				t.Error(err)
			}
			if err := all.Unlock(); err != nil {
				t.Error(err)
			}
			if all.Context().Err() == nil {
				t.Error("it goes on after Unlock")
			}
		})
	})
	t.Run("to lose one name ends the waiting for the rest", func(t *testing.T) {
		bubble(t, func(w *world) {
			a, _ := w.client(nil)
			b, _ := w.client(nil)
			last := mustLock(t, b, "2")
			done := make(chan error, 1)
			go func() {
				_, err := a.LockAll(ctx, "1", "2")
				done <- err
			}()
			synctest.Wait()
			queue, err := b.Queue(ctx, "1")
			if err != nil || len(queue.Claims) != 1 {
				t.Fatal(queue, err)
			}
			if err := b.Revoke(ctx, "1", queue.Claims[0].Ticket); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case err := <-done:
				if !errors.Is(err, ErrRevoked) {
					t.Error(err)
				}
			default:
				t.Error("it goes on waiting")
				mustUnlock(t, last)
				<-done
			}
			synctest.Wait()
			w.wantQueue("1", nil, nil)
			mustUnlock(t, last)
		})
	})
	t.Run("a name that was lost before anybody asked", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			l := mustLock(t, c, "x")
			if err := c.Revoke(ctx, "x", l.Token().Ticket()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var got error
			l.onLoss(func(err error) { got = err })
			if !errors.Is(got, ErrRevoked) {
				t.Error(got)
			}
			_ = l.Unlock()
		})
	})
	t.Run("each name is asked for under those before", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.near = true
			c, f := w.client(nil)
			all, err := c.LockAll(ctx, "b", "a", "b", "c")
			if err != nil {
				t.Fatal(err)
			}
			f.set(func(f *faulty) {
				if len(f.joins) != 3 {
					t.Fatalf("%d joins", len(f.joins))
				}
				for i, name := range []string{"a", "b", "c"} {
					if r := f.joins[i]; r.Name != name || len(r.Owner.Holds) != i {
						t.Errorf("%q holds %v, want %q and %d", r.Name, r.Owner.Holds, name, i)
					}
				}
			})
			if err := all.Unlock(); err != nil {
				t.Error(err)
			}
			f.set(func(f *faulty) {
				if len(f.leaves) != 1 || f.leaves[0][0].Name != "c" || f.leaves[0][2].Name != "a" {
					t.Errorf("%v: not the last obtained first", f.leaves)
				}
			})
		})
	})
	t.Run("the shortest of them", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			all, err := c.LockAll(ctx, "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			more, err := c.LockAll(ctx, "c")
			if err != nil {
				t.Fatal(err)
			}
			both := &Leases{core: c.core, leases: append(all.Leases(), more.Leases()...)}
			if got, want := both.Remaining(), more.Remaining(); got != want {
				t.Errorf("%v, want %v", got, want)
			}
			names := make([]string, maxLockAll+1)
			for i := range names {
				names[i] = string(rune('a' + i))
			}
			if _, err := c.LockAll(ctx, names...); err == nil {
				t.Error("more names than one call can give up")
			}
			if err := errors.Join(all.Unlock(), more.Unlock()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestWhatIsHandedOver(t *testing.T) {
	ctx := context.Background()
	detached := func(c *Client) *Client { return c.With(LockOptions{Detached: true}) }
	t.Run("trust counts from the start of the call", func(t *testing.T) {
		bubble(t, func(w *world) {
			a, _ := w.client(nil)
			b, fb := w.client(nil)
			l, err := detached(a).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			h, err := l.Detach()
			if err != nil {
				t.Fatal(err)
			}
			fb.set(func(f *faulty) {
				f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					got, err := real()
					time.Sleep(time.Second)
					return got, err
				}
			})
			l, err = b.Adopt(ctx, h)
			if err != nil {
				t.Fatal(err)
			}
			if most := DefaultTTL - DefaultTTL/100 - 7*time.Millisecond - time.Second; l.Remaining() > most {
				t.Errorf("%v left, at most %v can be", l.Remaining(), most)
			}
			mustUnlock(t, l)
		})
	})
	t.Run("it ends here", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			l, err := detached(c).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			life := l.Context()
			h, err := l.Detach()
			if err != nil {
				t.Fatal(err)
			}
			if life.Err() == nil {
				t.Error("its context goes on")
			}
			if _, err := l.Detach(); err == nil {
				t.Error("twice")
			}
			l, err = c.Adopt(ctx, " "+h+"\n") // as a file has it
			if err != nil {
				t.Fatal(err)
			}
			mustUnlock(t, l)
			if _, err := l.Detach(); err == nil {
				t.Error("after Unlock")
			}
		})
	})
	t.Run("one that was revoked meanwhile is left, and Unlock says so", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l, err := detached(c).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a subscription that begins now would ask, and be told
			f.set(func(f *faulty) { f.deaf = true })
			if err := c.Revoke(ctx, "x", l.Token().Ticket()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Detach(); !errors.Is(err, ErrRevoked) {
				t.Error(err)
			}
			if err := l.Unlock(); !errors.Is(err, ErrRevoked) {
				t.Error(err)
			}
			w.wantQueue("x", nil, nil)
		})
	})
	t.Run("with the options of who goes on with it", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			l, err := detached(c).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			h, err := l.Detach()
			if err != nil {
				t.Fatal(err)
			}
			l, err = c.With(LockOptions{MaxHold: time.Minute}).Adopt(ctx, h)
			if err != nil {
				t.Fatal(err)
			}
			life := l.Context()
			time.Sleep(time.Minute)
			synctest.Wait()
			if !errors.Is(context.Cause(life), ErrMaxHold) {
				t.Error(context.Cause(life))
			}
			_ = l.Unlock()
		})
	})
	t.Run("an engine that does not answer is told, and the call has a bound", func(t *testing.T) {
		bubble(t, func(w *world) {
			h := &received{}
			c, f := w.client(&Options{Observer: h.observe})
			l, err := c.With(LockOptions{Detached: true, TTL: time.Second}).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			handle, err := l.Detach()
			if err != nil {
				t.Fatal(err)
			}
			f.set(func(f *faulty) {
				f.renew = func(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			})
			start := time.Now()
			if _, err := c.Adopt(ctx, handle); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
			if took := time.Since(start); took != time.Second {
				t.Errorf("after %v", took)
			}
			if e := h.of(EventEngineDown); len(e) != 1 {
				t.Errorf("%+v", e)
			}
		})
	})
}

func TestClose(t *testing.T) {
	t.Run("an engine that hangs: bounded, and told", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) {
				f.leave = func(ctx context.Context, _ []engine.Claim, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			})
			start := time.Now()
			err := c.Close()
			if !errors.Is(err, ErrUnknown) || time.Since(start) != closeBound {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if again := c.Close(); again != err {
				t.Errorf("the second time: %v", again)
			}
			if err := l.Unlock(); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	})
	t.Run("an Unlock that is under way goes first", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(nil)
			l := mustLock(t, c, "x")
			f.set(func(f *faulty) {
				f.leave = func(_ context.Context, _ []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					time.Sleep(2 * time.Second) // and not so long that the claim expires
					return real()
				}
			})
			done := make(chan error, 1)
			go func() { done <- l.Unlock() }()
			synctest.Wait()
			start := time.Now()
			second := make(chan time.Duration, 1)
			go func() {
				time.Sleep(time.Second)
				_ = c.Close()
				second <- time.Since(start)
			}()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if took := <-second; took < 2*time.Second {
				t.Errorf("the second Close was over after %v", took)
			}
		})
	})
}
