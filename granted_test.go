package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// generous has every answer of an engine say that it granted an hour, as one
// does whose clock was set back by an hour: its deadlines are that far ahead.
// What it keeps is what was asked for.
func generous(f *faulty) {
	f.join = func(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
		got, err := real()
		got.TTL += time.Hour
		return got, err
	}
	f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
		got, err := real()
		for i := range got {
			got[i].TTL += time.Hour
		}
		return got, err
	}
}

// No call may be believed to have granted more than it asked for: the clock that
// said so can come right at any moment, and somebody else holds then.
func TestNoMoreIsBelievedThanWasAskedFor(t *testing.T) {
	const ttl = 3 * time.Second
	detached := func(t *testing.T, c *Client) *Lease {
		l, err := c.With(LockOptions{Detached: true}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, begin := range map[string]func(*testing.T, *Client) *Lease{
		"Join": func(t *testing.T, c *Client) *Lease { return mustLock(t, c, "x") },
		"Renew": func(t *testing.T, c *Client) *Lease {
			l := mustLock(t, c, "x")
			time.Sleep(5 * ttl)
			return l
		},
		"Detach and Adopt": func(t *testing.T, c *Client) *Lease {
			h, err := detached(t, c).Detach()
			if err != nil {
				t.Fatal(err)
			}
			l, err := c.Adopt(context.Background(), h)
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, f := w.client(&Options{TTL: ttl})
				f.set(generous)
				l := begin(t, c)
				if left := l.Remaining(); left > ttl {
					t.Errorf("%v left of a TTL of %v", left, ttl)
				}
				// It goes on being renewed by what was asked for, and ends by it.
				_, before, _ := f.calls()
				time.Sleep(10 * ttl)
				if _, n, _ := f.calls(); n-before < 20 {
					t.Errorf("%d renewals in 10 TTLs", n-before)
				}
				if !l.Valid() {
					t.Fatal("lost")
				}
				f.set(func(f *faulty) { f.renew = cutRenew })
				start := w.clock()
				<-l.Context().Done()
				if d := w.clock() - start; d > ttl {
					t.Errorf("lost %v after the engine was gone, TTL %v", d, ttl)
				}
				if err := l.Unlock(); !errors.Is(err, ErrLost) {
					t.Error(err)
				}
			})
		})
	}
}

// A waiter renews by what it asked for, or its place is gone.
func TestAWaiterRenewsByWhatItAskedFor(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "a"})
		b, fb := w.client(&Options{Label: "b"})
		l := mustLock(t, a, "x")
		fb.set(generous)
		got := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		time.Sleep(time.Minute)
		w.wantQueue("x", []string{"a"}, []string{"b"})
		mustUnlock(t, l)
		mustUnlock(t, (<-got).l)
	})
}

// What MinHold keeps is prolonged by what was asked for.
func TestMinHoldIsKeptByWhatItAskedFor(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{Label: "c"})
		l, err := c.With(LockOptions{MinHold: 50 * time.Hour}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		f.set(func(f *faulty) {
			generous(f)
			far := f.renew
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				got, err := far(ctx, rs, real)
				for i := range got {
					got[i].TTL += 24 * time.Hour
				}
				return got, err
			}
		})
		mustUnlock(t, l)
		time.Sleep(49 * time.Hour)
		w.wantQueue("x", []string{"c"}, nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		w.wantQueue("x", nil, nil)
	})
}

// The answer to MinHold's renewal counts from the start of the call.
func TestMinHoldCountsFromTheStartOfTheCall(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{Label: "c"})
		start := w.clock()
		l, err := c.With(LockOptions{MinHold: engine.MaxTTL + time.Second}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		f.set(func(f *faulty) {
			f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				defer time.Sleep(2 * time.Second)
				return real()
			}
		})
		mustUnlock(t, l)
		time.Sleep(start + engine.MaxTTL + 500*time.Millisecond - w.clock())
		w.wantQueue("x", []string{"c"}, nil)
	})
}
