package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// A context's deadline is one more way to say how long to wait: its error says
// who holds the name, as that of Wait does.
func TestADeadlineSaysWhoHoldsTheName(t *testing.T) {
	why := errors.New("the request has had its time")
	ends := map[string]func() (context.Context, context.CancelFunc, error){
		"deadline": func() (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			return ctx, cancel, context.DeadlineExceeded
		},
		"deadline with a cause": func() (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, why)
			return ctx, cancel, why
		},
		"deadline before Wait": func() (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			return ctx, cancel, context.DeadlineExceeded
		},
	}
	asks := map[string]func(context.Context, *Client) error{
		"Lock":    func(ctx context.Context, c *Client) error { _, err := c.Lock(ctx, "x"); return err },
		"RLock":   func(ctx context.Context, c *Client) error { _, err := c.RLock(ctx, "x"); return err },
		"LockAll": func(ctx context.Context, c *Client) error { _, err := c.LockAll(ctx, "a", "x"); return err },
		"Do": func(ctx context.Context, c *Client) error {
			return c.Do(ctx, "x", func(context.Context, *Lease) error { t.Error("it runs"); return nil })
		},
	}
	for end, begin := range ends {
		for name, ask := range asks {
			t.Run(name+", "+end, func(t *testing.T) {
				bubble(t, func(w *world) {
					a, _ := w.client(&Options{Label: "a"})
					b, _ := w.client(nil)
					if end == "deadline before Wait" {
						b = b.With(LockOptions{Wait: time.Minute})
					}
					l := mustLock(t, a, "x")
					ctx, cancel, want := begin()
					defer cancel()
					err := ask(ctx, b)
					var held *HeldError
					if !errors.As(err, &held) || len(held.By) != 1 || held.By[0].Owner.Label != "a" || held.Waited != time.Second {
						t.Errorf("who holds it is not in the error: %v", err)
					}
					if !errors.Is(err, want) || !errors.Is(err, ErrHeld) {
						t.Errorf("error %v, want ErrHeld and %v", err, want)
					}
					mustUnlock(t, l)
					synctest.Wait()
					w.wantQueue("x", nil, nil)
				})
			})
		}
	}
	t.Run("nobody looks for a caller that was cancelled", func(t *testing.T) {
		bubble(t, func(w *world) {
			a, _ := w.client(nil)
			b, _ := w.client(nil)
			l := mustLock(t, a, "x")
			ctx, cancel := context.WithCancel(context.Background())
			got := async(func() (*Lease, error) { return b.Lock(ctx, "x") })
			synctest.Wait()
			cancel()
			if o := <-got; !errors.Is(o.err, context.Canceled) || errors.Is(o.err, ErrHeld) {
				t.Errorf("error %v", o.err)
			}
			mustUnlock(t, l)
		})
	})
}

// Whether anybody holds the name is not known while the engine has not answered.
func TestAnEngineThatHasNotAnsweredSaysNothingOfAHolder(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				return engine.Claim{}, ctx.Err()
			}
		})
		if _, err := c.With(LockOptions{Wait: time.Second}).Lock(context.Background(), "x"); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrHeld) {
			t.Errorf("Wait: %v, want ErrUnavailable", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := w.clock()
		if _, err := c.Lock(ctx, "x"); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrHeld) {
			t.Errorf("deadline: %v, want ErrUnavailable and DeadlineExceeded", err)
		}
		if d := w.clock() - start; d != time.Second {
			t.Errorf("answered after %v", d)
		}
	})
}
