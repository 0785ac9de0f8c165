package leasehold

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest/kinds"
	"leasehold/internal/claims"
)

// stop has every call of f hang until its context ends, as on a server that was
// stopped and not killed.
func stop(f *faulty) {
	f.renew = func(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.leave = func(ctx context.Context, _ []engine.Claim, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.line = func(ctx context.Context, _ func() (engine.Queue, error)) (engine.Queue, error) {
		<-ctx.Done()
		return engine.Queue{}, ctx.Err()
	}
}

func TestAWaiterOnAStoppedEngineReturnsInItsTime(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, f := w.client(nil)
		l := mustLock(t, a, "x")
		ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		second := async(func() (*Lease, error) { return b.Lock(ctx, "x") })
		synctest.Wait()
		f.set(stop)
		o := <-second
		if d := time.Since(start); d > 1500*time.Millisecond+sayBound {
			t.Errorf("returned after %v: %v", d, o.err)
		}
		if !errors.Is(o.err, ErrHeld) || !errors.Is(o.err, context.DeadlineExceeded) {
			t.Error(o.err)
		}
		f.set(func(f *faulty) { f.renew, f.leave, f.line = nil, nil, nil })
		mustUnlock(t, l)
	})
}

func TestCloseOnAStoppedEngineTakesTheTimeOfOneCall(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		mustLock(t, c, "x")
		if _, err := c.With(LockOptions{MinHold: time.Minute}).Lock(context.Background(), "y"); err != nil {
			t.Fatal(err)
		}
		f.set(stop)
		start := time.Now()
		if err := c.Close(); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		if d := time.Since(start); d > closeBound {
			t.Errorf("Close took %v", d)
		}
	})
}

// Without order who waits asks anew, each by a call of its own: what is held is
// renewed in one batch whatever is under way for who waits, and in front of it.
func TestAHeldClaimIsNotRenewedBehindTries(t *testing.T) {
	bubble(t, func(w *world) {
		r := kinds.NewRegister(w.store)
		r.PollAfter = 100 * time.Millisecond
		client := func() (*Client, *faulty) {
			f := &faulty{Engine: r.Engine()}
			c, err := New(w.timed(f), &Options{})
			if err != nil {
				t.Fatal(err)
			}
			w.t.Cleanup(func() { c.Close() })
			return c, f
		}
		other, _ := client()
		c, f := client()
		held := map[string]bool{}
		ctx, cancel := context.WithCancel(context.Background())
		for i := range 20 {
			name := fmt.Sprint("held", i)
			held[name] = true
			mustLock(t, c, name)
			mustLock(t, other, fmt.Sprint("waits", i))
			async(func() (*Lease, error) { return c.Lock(ctx, fmt.Sprint("waits", i)) })
		}
		time.Sleep(2 * time.Second) // all are raised
		f.notify(begins)            // everything is due at once
		time.Sleep(time.Second)
		synctest.Wait()
		tries, batch := 0, 0
		f.mu.Lock()
		for _, r := range f.joins {
			if !held[r.Name] {
				tries++
			}
		}
		for _, asked := range f.renews {
			for _, r := range asked {
				if !held[r.Name] {
					t.Errorf("%q waits, and is renewed", r.Name)
				}
			}
			batch = max(batch, len(asked))
		}
		f.mu.Unlock()
		if tries <= len(held) || batch != len(held) {
			t.Errorf("%d joins of who waits, at most %d held claims in one call", tries, batch)
		}
		cancel()
		synctest.Wait()
	})
}

// Who waits by the thousand is not asked for by as many calls at once.
func TestTriesUnderWayAreBounded(t *testing.T) {
	bubble(t, func(w *world) {
		const names = claims.MaxTries + 200
		r := kinds.NewRegister(w.store)
		r.PollAfter = 100 * time.Millisecond
		holder := r.Engine()
		f := &faulty{Engine: r.Engine()}
		c, err := New(w.timed(f), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer holder.Close()
		ctx, cancel := context.WithCancel(context.Background())
		for i := range names {
			name := fmt.Sprint("n", i)
			if _, err := holder.Join(ctx, engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			async(func() (*Lease, error) { return c.Lock(ctx, name) })
		}
		synctest.Wait()
		var now, most, all int
		asked := map[string]bool{}
		f.set(func(f *faulty) {
			f.join = func(_ context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				f.set(func(*faulty) { asked[r.Name] = true; all++; now++; most = max(most, now) })
				time.Sleep(50 * time.Millisecond)
				f.set(func(*faulty) { now-- })
				return real()
			}
		})
		time.Sleep(time.Second)
		f.set(func(*faulty) {
			if most != claims.MaxTries || len(asked) != names || all < 2*names {
				t.Errorf("%d tries under way at once, of at most %d; %d names of %d were tried for, %d times", most, claims.MaxTries, len(asked), names, all)
			}
		})
		cancel()
		synctest.Wait()
	})
}
