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

// Without order a Renew of a claim that waits is a try, and a batch is as slow as
// all its tries together.
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
		for _, asked := range f.renews {
			of := map[bool]int{}
			for _, r := range asked {
				of[held[r.Name]]++
			}
			if of[true] > 0 && of[false] > 0 {
				t.Errorf("%d held claims are renewed in one call with %d tries", of[true], of[false])
			}
			tries, batch = tries+of[false], max(batch, of[true])
		}
		f.mu.Unlock()
		if tries == 0 || batch != len(held) {
			t.Errorf("void: %d tries, at most %d held claims in one call", tries, batch)
		}
		cancel()
		synctest.Wait()
	})
}
