package leasehold

import (
	"context"
	"errors"
	"leasehold/internal/claims"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
)

// untilDeadline is an engine that looks at a call's deadline and not at its
// context, as one does that hands the deadline to a connection. Its answer and
// the end of the caller's context fall on one instant, in either order.
func untilDeadline(ctx context.Context) error {
	at, ok := ctx.Deadline()
	if !ok {
		return errors.New("a call of the core has no deadline")
	}
	time.Sleep(time.Until(at))
	return context.DeadlineExceeded
}

// A caller whose own time is up before the call's has learned nothing of the
// engine: it is neither slow nor down, and the next claim is born as always.
func TestTheCallersOwnTimeSaysNothingOfTheEngine(t *testing.T) {
	const times = 50 // which of the two timers is first is chance
	join := func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
		return engine.Claim{}, untilDeadline(ctx)
	}
	t.Run("Lock", func(t *testing.T) {
		bubble(t, func(w *world) {
			var down atomic.Int32
			c, f := w.client(&Options{Observer: func(e Event) {
				if e.Kind == EventEngineDown {
					down.Add(1)
				}
			}})
			f.set(func(f *faulty) { f.join = join })
			for range times {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				if _, err := c.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want that of the context", err)
				}
				cancel()
			}
			if n := down.Load(); n > 0 {
				t.Errorf("the engine was told to be down %d times", n)
			}
			f.set(func(f *faulty) { f.join = nil })
			mustUnlock(t, mustLock(t, c, "y"))
			if got := f.joins[len(f.joins)-1].WaitTTL; got != claims.FirstTTL {
				t.Errorf("a claim is born with %v, as if the engine were slow; want %v", got, claims.FirstTTL)
			}
		})
	})
	t.Run("Adopt", func(t *testing.T) {
		bubble(t, func(w *world) {
			giver, _ := w.client(nil)
			l, err := giver.With(LockOptions{Detached: true}).Lock(context.Background(), "x")
			if err != nil {
				t.Fatal(err)
			}
			h, err := l.Detach()
			if err != nil {
				t.Fatal(err)
			}
			var down atomic.Int32
			c, f := w.client(&Options{Observer: func(e Event) {
				if e.Kind == EventEngineDown {
					down.Add(1)
				}
			}})
			f.set(func(f *faulty) {
				f.renew = func(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					return nil, untilDeadline(ctx)
				}
			})
			for range times {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				if _, err := c.Adopt(ctx, h); !errors.Is(err, ErrUnavailable) {
					t.Errorf("error %v, want ErrUnavailable", err)
				}
				cancel()
			}
			if n := down.Load(); n > 0 {
				t.Errorf("the engine was told to be down %d times", n)
			}
		})
	})
}

// A MaxHold below MinHold would free the name before MinHold has passed, and a
// negative one, perhaps a deadline less the time now, would bound nothing.
func TestHoldsThatContradictAreRefused(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		for _, o := range []LockOptions{
			{MinHold: time.Minute, MaxHold: time.Second}, {MinHold: -1}, {MaxHold: -time.Second},
		} {
			if l, err := c.With(o).Lock(context.Background(), "x"); err == nil {
				t.Errorf("%+v was granted", o)
				mustUnlock(t, l)
			}
		}
		if j, _, _ := f.calls(); j > 0 {
			t.Errorf("the engine was asked %d times", j)
		}
	})
}
