package leasehold

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine/memlock"
	"leasehold/internal/door"
)

func TestStatsAreWhatAClientDoes(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 9 * time.Second, NoLocalHandoff: true})
		if got := c.Stats(); got != (Stats{}) {
			t.Errorf("got %+v of a new client, want nothing", got)
		}
		l := mustLock(t, c, "x")
		once, err := c.With(LockOptions{NoRenew: true, TTL: time.Second}).Lock(context.Background(), "once")
		if err != nil {
			t.Fatal(err)
		}
		next := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		time.Sleep(900 * time.Millisecond)
		got := c.Stats()
		if got.Held != 2 || got.Waiting != 1 || got.Trust != l.Remaining() || got.TrustPart < 0.5 || got.TrustPart > 1 || got.Failed != 0 || got.DownFor != 0 {
			t.Errorf("got %+v, want 2 leases, 1 call that waits, and the trust of the lease that is renewed (%v)", got, l.Remaining())
		}
		mustUnlock(t, once)
		f.set(func(f *faulty) { f.renew = cutRenew })
		time.Sleep(7 * time.Second)
		got = c.Stats()
		if got.Failed == 0 || got.DownFor == 0 || got.TrustPart >= 0.5 || got.Trust > l.Remaining() {
			t.Errorf("got %+v of an engine that does not answer, want failed calls, since when, and less trust", got)
		}
		f.set(func(f *faulty) { f.renew = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		_ = l.Unlock()
		o := <-next
		if o.err != nil {
			t.Fatal(o.err)
		}
		if got = c.Stats(); got.Held != 1 || got.Waiting != 0 || got.DownFor != 0 {
			t.Errorf("got %+v, want one lease and an engine that answers", got)
		}
		mustUnlock(t, o.l)
		if got = c.Stats(); got.Held != 0 {
			t.Errorf("got %+v, want no lease", got)
		}
		c.Close()
		if got = c.Stats(); got != (Stats{Closed: true}) {
			t.Errorf("got %+v of a closed client", got)
		}
	})
}

// The events of a call that waits have one number, and come in their order.
func TestTheEventsOfACallThatWaitsHaveItsNumber(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, _ := w.client(&Options{Observer: h.observe})
		l := mustLock(t, c, "x")
		var calls []chan outcome
		for range 3 {
			calls = append(calls, async(func() (*Lease, error) { return c.Lock(context.Background(), "x") }))
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.RLock(short, "x"); err == nil {
			t.Fatal("two hold x")
		}
		mustUnlock(t, l)
		for _, call := range calls {
			o := <-call
			if o.err != nil {
				t.Fatal(o.err)
			}
			mustUnlock(t, o.l)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		waits := map[uint64]bool{}
		ended := 0
		for _, e := range h.events {
			switch e.Kind {
			case EventWaiting:
				if e.Call == 0 || waits[e.Call] {
					t.Errorf("got the number %d twice, or none", e.Call)
				}
				waits[e.Call] = true
			case EventHeld, EventHandoff, EventGaveUp:
				if e.Call == 0 {
					continue
				}
				if !waits[e.Call] {
					t.Errorf("%v of the call %d came before its waiting", e.Kind, e.Call)
				}
				delete(waits, e.Call)
				ended++
			default:
				if e.Call != 0 {
					t.Errorf("%v has the number %d", e.Kind, e.Call)
				}
			}
		}
		if ended != 4 || len(waits) > 0 {
			t.Errorf("%d calls ended their waiting, and %v did not, want 4 and none", ended, waits)
		}
	})
}

// A reading of this clock is a system call, the largest part of what an Observer costs.
func TestAnObserverCostsNoReadingOfTheClock(t *testing.T) {
	readings := func(o *Options) (n int64) {
		var read atomic.Int64
		start := time.Now()
		c, err := New(&door.Engine{Engine: memlock.New(), Clock: func() time.Duration { read.Add(1); return time.Since(start) + time.Hour }}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		mustUnlock(t, mustLock(t, c, "x"))
		n = math.MaxInt64
		for range 50 { // renewals read it, too, at any moment
			before := read.Load()
			mustUnlock(t, mustLock(t, c, "x"))
			n = min(n, read.Load()-before)
		}
		return n
	}
	without, with := readings(nil), readings(&Options{Observer: func(Event) {}})
	if without < 2 || with > without {
		t.Errorf("a pair reads the clock %d times with an Observer and %d times without", with, without)
	}
}
