package leasehold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// A claim that is kept for nobody is in no caller's way, whatever the caller asks for.
func TestAKeptNameIsFreeForItsOwnClient(t *testing.T) {
	other := LockOptions{TTL: 9 * time.Second}
	for name, ask := range map[string]func(context.Context, *Client) (*Lease, error){
		"TryLock with another TTL": func(ctx context.Context, c *Client) (*Lease, error) { return c.With(other).TryLock(ctx, "x") },
		"Lock with another TTL":    func(ctx context.Context, c *Client) (*Lease, error) { return c.With(other).Lock(ctx, "x") },
		"TryRLock":                 func(ctx context.Context, c *Client) (*Lease, error) { return c.With(other).TryRLock(ctx, "x") },
		"TryAcquire":               func(ctx context.Context, c *Client) (*Lease, error) { return c.TryAcquire(ctx, "x", 1, 3) },
		"Acquire":                  func(ctx context.Context, c *Client) (*Lease, error) { return c.Acquire(ctx, "x", 1, 3) },
		"TryLockAll": func(ctx context.Context, c *Client) (*Lease, error) {
			all, err := c.With(other).TryLockAll(ctx, "x")
			if err != nil {
				return nil, err
			}
			return all.Leases()[0], nil
		},
		// These ask for themselves, beside the queue in which the claim is kept.
		"TryLock with MinHold": func(ctx context.Context, c *Client) (*Lease, error) {
			return c.With(LockOptions{MinHold: time.Second}).TryLock(ctx, "x")
		},
		"Lock with MinHold": func(ctx context.Context, c *Client) (*Lease, error) {
			return c.With(LockOptions{MinHold: time.Second}).Lock(ctx, "x")
		},
		"TryLock without local handoff": func(ctx context.Context, c *Client) (*Lease, error) {
			return c.With(LockOptions{NoLocalHandoff: true}).TryLock(ctx, "x")
		},
		"Lock under another lease": func(ctx context.Context, c *Client) (*Lease, error) {
			outer, err := c.Lock(ctx, "outer")
			if err != nil {
				return nil, err
			}
			defer outer.Unlock()
			bound, cancel := outer.Bind(ctx)
			defer cancel()
			return c.Lock(bound, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, f := w.client(&Options{IdleTimeout: time.Minute})
				f.set(func(f *faulty) { // an engine that does not say that somebody waits
					f.deaf = true
					f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
						got, err := real()
						for i := range got {
							got[i].Contended = false
						}
						return got, err
					}
				})
				mustUnlock(t, mustLock(t, c, "x"))
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				l, err := ask(ctx, c)
				if err != nil {
					t.Fatalf("nobody uses the name: %v", err)
				}
				mustUnlock(t, l)
			})
		})
	}
}

// The engine answered, and the TTL has not passed: that is no expiry.
func TestDetachOfADeletedClaimSaysSo(t *testing.T) {
	bubble(t, func(w *world) {
		var lost []Event
		c, f := w.client(&Options{Observer: func(e Event) {
			if e.Kind == EventLost {
				lost = append(lost, e)
			}
		}})
		l := mustLock(t, c.With(LockOptions{Detached: true}), "x")
		f.set(func(f *faulty) {
			f.renew = func(_ context.Context, rs []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				return []engine.Claim{{Name: rs[0].Name, ID: rs[0].ID, State: engine.Gone}}, nil
			}
		})
		_, err := l.Detach()
		if gone, ok := errors.AsType[*LostError](err); !ok || gone.Reason != LossDeleted {
			t.Errorf("got %v, want the reason %v", err, LossDeleted)
		}
		if len(lost) != 1 || lost[0].Reason != LossDeleted || lost[0].Name != "x" {
			t.Errorf("the observer got %+v, want one loss", lost)
		}
	})
}

func TestAdoptOfALeaseThatIsOverSaysNothingOfRenewals(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		h, err := mustLock(t, c.With(LockOptions{Detached: true}), "x").Detach()
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Adopt(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, first)
		_, err = c.Adopt(context.Background(), h)
		if !errors.Is(err, ErrLost) || strings.Contains(err.Error(), "answered no renewal") {
			t.Errorf("got %v, want an ErrLost that does not speak of renewals", err)
		}
	})
}

// TryLock that was refused asks who holds the name, and for that it stays no longer than
// any other call after its time.
func TestTryLockEndsSoonAfterItsContext(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		defer mustUnlock(t, mustLock(t, a, "x"))
		b, f := w.client(nil)
		f.set(func(f *faulty) {
			f.line = func(ctx context.Context, _ func() (engine.Queue, error)) (engine.Queue, error) {
				<-ctx.Done()
				return engine.Queue{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := b.TryLock(ctx, "x"); !errors.Is(err, ErrHeld) {
			t.Errorf("got %v, want ErrHeld", err)
		}
		if took := time.Since(begin); took > 50*time.Millisecond+sayBound {
			t.Errorf("took %v with a context of 50 ms", took)
		}
	})
}

// Every loss has a reason, that of a lease whose client was closed too.
func TestTheLossOfALeaseWhoseClientWasClosedHasAReason(t *testing.T) {
	bubble(t, func(w *world) {
		var reason LossReason
		c, _ := w.client(&Options{Observer: func(e Event) {
			if e.Kind == EventLost {
				reason = e.Reason
			}
		}})
		mustLock(t, c, "x")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if reason != LossClosed || strings.Contains(reason.String(), "reason") {
			t.Errorf("got the reason %v, want %v", reason, LossClosed)
		}
	})
}

// A process that handed its lease over does not hold the name any more.
func TestADetachedLeaseIsNotThisProcesssOwn(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		own := func() bool {
			_, err := c.TryLock(context.Background(), "x")
			held, ok := errors.AsType[*HeldError](err)
			if !ok {
				t.Fatalf("got %v, want a HeldError", err)
			}
			return held.Own
		}
		l := mustLock(t, c.With(LockOptions{Detached: true}), "x")
		if !own() {
			t.Error("before Detach it is this process's own")
		}
		if _, err := l.Detach(); err != nil {
			t.Fatal(err)
		}
		if own() {
			t.Error("after Detach it is not")
		}
	})
}

// ErrClosed is one error, whatever call of a closed Client answers with it.
func TestEveryCallOfAClosedClientSaysSo(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		h, err := mustLock(t, c.With(LockOptions{Detached: true}), "x").Detach()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for name, err := range map[string]error{
			"Queue":  func() error { _, err := c.Queue(ctx, "x"); return err }(),
			"Revoke": c.Revoke(ctx, "x", 1),
			"Adopt":  func() error { _, err := c.Adopt(ctx, h); return err }(),
			"Queues": func() error {
				for _, err := range c.Queues(ctx, "") {
					return err
				}
				return nil
			}(),
		} {
			if !errors.Is(err, ErrClosed) || !strings.HasPrefix(err.Error(), "leasehold: ") || errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s: got %v, want an ErrClosed that names the call", name, err)
			}
		}
	})
}

// An engine that fails says why, and a call that it does not answer at all repeats that.
func TestACallWithoutAnAnswerSaysWhatOthersFailedWith(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		held := mustLock(t, c, "held")
		defer held.Unlock()
		f.set(func(f *faulty) {
			f.renew = cutRenew
			f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				return engine.Claim{}, ctx.Err()
			}
		})
		time.Sleep(time.Second) // the renewal of the held lease has failed
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "x"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), errCut.Error()) {
			t.Errorf("got %v, want %v that names %q", err, ErrUnavailable, errCut)
		}
	})
}

// Close does not wait for an Adopt that the engine does not answer.
func TestCloseEndsAdopt(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		h, err := mustLock(t, a.With(LockOptions{Detached: true}), "x").Detach()
		if err != nil {
			t.Fatal(err)
		}
		c, f := w.client(nil)
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		adopted := make(chan error)
		go func() {
			_, err := c.Adopt(context.Background(), h)
			adopted <- err
		}()
		synctest.Wait()
		begin := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-adopted; !errors.Is(err, ErrClosed) {
			t.Errorf("a client that was closed says %v", err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("Close and Adopt took %v", took)
		}
	})
}
