package leasehold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// What the shell adds to the machine's decisions: bounds of calls, contexts,
// events, listening.

// heard is an Observer that keeps what it hears.
type received struct {
	mu     sync.Mutex
	events []Event
}

func (h *received) observe(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *received) of(kind EventKind) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.events), func(e Event) bool { return e.Kind != kind })
}

func TestEventsSayHowLongAndWhy(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, f := w.client(&Options{Observer: h.observe})
		l := mustLock(t, c, "x")
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if e := h.of(EventRenewed); len(e) != 1 || e[0].Held != 200*time.Millisecond {
			t.Errorf("renewed: %+v", e)
		}
		f.set(func(f *faulty) { f.renew = cutRenew })
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if e := h.of(EventEngineDown); len(e) != 1 || !errors.Is(e[0].Err, errCut) {
			t.Errorf("down: %+v", e)
		}
		f.set(func(f *faulty) { f.renew = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if e := h.of(EventEngineUp); len(e) != 1 || e[0].Held <= 0 || e[0].Held > 3*time.Second {
			t.Errorf("up: %+v", e)
		}
		next := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		time.Sleep(time.Second)
		mustUnlock(t, l)
		o := <-next
		if o.err != nil {
			t.Fatal(o.err)
		}
		if e := h.of(EventHandoff); len(e) != 1 || e[0].Waited != time.Second || e[0].Token != o.l.Token() {
			t.Errorf("handed off: %+v", e)
		}
		if e := h.of(EventReleased); len(e) != 1 || e[0].Held < 14*time.Second {
			t.Errorf("released: %+v", e)
		}
		mustUnlock(t, o.l)
	})
}

func TestACallWhoseContextHasEndedAsksNothing(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		boom := errors.New("boom")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(boom)
		for range 20 {
			if _, err := c.Lock(ctx, "x"); !errors.Is(err, boom) {
				t.Fatal(err)
			}
		}
		if j, _, _ := f.calls(); j != 0 {
			t.Errorf("%d joins", j)
		}
	})
}

func TestACancelIsNotBlamedOnTheEngine(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, f := w.client(&Options{Observer: h.observe})
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				return engine.Claim{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() (*Lease, error) { return c.Lock(ctx, "x") })
		synctest.Wait()
		cancel()
		if o := <-got; !errors.Is(o.err, context.Canceled) || errors.Is(o.err, ErrUnavailable) {
			t.Error(o.err)
		}
		synctest.Wait()
		if e := h.of(EventEngineDown); len(e) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestTheEndOfWaitIsNoErrorOfItsOwn(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		l := mustLock(t, a, "x")
		_, err := b.With(LockOptions{Wait: time.Second}).Lock(context.Background(), "x")
		if !errors.Is(err, ErrHeld) || errors.Is(err, errWaited) || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		mustUnlock(t, l)

		// Nor where the call asks anew at that very moment.
		ctx, cancel := context.WithTimeoutCause(context.Background(), 0, errWaited)
		defer cancel()
		if _, err := b.obtainUnder(ctx, nil, lock("x")); !errors.Is(err, ErrHeld) || errors.Is(err, errWaited) {
			t.Error(err)
		}
	})
}

func TestCallsHaveBounds(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		bound := map[string]time.Duration{}
		notification := func(name string, ctx context.Context) {
			at, _ := ctx.Deadline()
			f.set(func(*faulty) { bound[name] = time.Until(at) })
		}
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				notification("Join", ctx)
				return real()
			}
			f.renew = func(ctx context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				notification("Renew", ctx)
				return real()
			}
			f.leave = func(ctx context.Context, _ []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				notification("Leave", ctx)
				return real()
			}
		})
		l := mustLock(t, c, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		mustUnlock(t, l)
		for name, want := range map[string]time.Duration{"Join": 3 * time.Second, "Renew": 3 * time.Second, "Leave": releaseBound} {
			if bound[name] != want {
				t.Errorf("%s may take %v, want %v", name, bound[name], want)
			}
		}
	})
}

// Claims that are renewed in one call may have been granted different times.
func TestACallOfManyMayTakeAsLongAsTheLongestOfThem(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		long := mustLock(t, c, "long")
		time.Sleep(10 * time.Second)
		short, err := c.With(LockOptions{TTL: time.Second}).Lock(context.Background(), "short")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		var bounds []time.Duration
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				at, _ := ctx.Deadline()
				if len(rs) == 2 {
					f.set(func(*faulty) { bounds = append(bounds, time.Until(at)) })
				}
				return real()
			}
		})
		f.notify(engine.Claim{}) // a subscription began: both in one call
		synctest.Wait()
		f.set(func(*faulty) {
			if len(bounds) != 1 || bounds[0] != DefaultTTL {
				t.Errorf("%v, want one of %v", bounds, DefaultTTL)
			}
		})
		mustUnlock(t, short)
		mustUnlock(t, long)
	})
}

// unheard is an engine whose subscriptions fail.
type unheard struct {
	*faulty
	watches *int
}

func (u unheard) Watch(context.Context, func(engine.Claim)) error {
	*u.watches++ // by one goroutine
	return errCut
}

func TestASubscriptionThatFailsIsTriedAgainAndTold(t *testing.T) {
	bubble(t, func(w *world) {
		h, watches := &received{}, 0
		c, err := New(w.timed(unheard{&faulty{Engine: w.store.Engine()}, &watches}), &Options{Observer: h.observe})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		// 50 ms doubled up to 1 s, half of it by chance.
		if watches < 60 || watches > 125 {
			t.Errorf("%d subscriptions in a minute", watches)
		}
		if e := h.of(EventEngineDown); len(e) != 1 || !errors.Is(e[0].Err, errCut) {
			t.Errorf("%+v", e)
		}
	})
}

// A clock that goes on while the other stands: somebody stepped the wall clock,
// which an engine may go by.
func TestAStepOfTheWallClockHasAllRenewedOnce(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		var step time.Duration
		real := w.clock
		w.clock = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return real() + step
		}
		c, f := w.client(nil)
		l := mustLock(t, c, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		_, before, _ := f.calls()
		mu.Lock()
		step = 2 * time.Second
		mu.Unlock()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if _, r, _ := f.calls(); r != before+1 {
			t.Errorf("%d renewals after the step", r-before)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, r, _ := f.calls(); r != before+1 {
			t.Errorf("%d renewals after one step", r-before)
		}
		if !l.Valid() {
			t.Error("lost by it")
		}
		mustUnlock(t, l)
	})
}

// A process that was paused: its deadlines are found late, by whoever looks
// first, and none of its leases says that all is well.
func TestAClockThatJumpsEndsEveryLease(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		var jump time.Duration
		real := w.clock
		w.clock = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return real() + jump
		}
		h := &received{}
		c, _ := w.client(&Options{Observer: h.observe})
		unlocked, asked, detached, left := mustLock(t, c, "a"), mustLock(t, c, "b"), mustLock(t, c, "c"), mustLock(t, c, "d")
		outer := unlocked.Context()
		mu.Lock()
		jump = time.Hour
		mu.Unlock()
		if err := unlocked.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		if !errors.Is(context.Cause(outer), ErrLost) {
			t.Errorf("its context: %v", context.Cause(outer))
		}
		if asked.Valid() || asked.Remaining() != 0 {
			t.Error("valid")
		}
		if _, err := detached.Detach(); !errors.Is(err, ErrLost) {
			t.Errorf("Detach: %v", err)
		}
		if _, err := reentrant(c).Lock(left.Context(), "d"); !errors.Is(err, ErrLost) {
			t.Errorf("re-entered: %v", err)
		}
		synctest.Wait()
		if n := len(h.of(EventLost)); n != 4 {
			t.Errorf("%d of 4 were told", n)
		}
		if n := len(h.of(EventReleased)); n != 0 {
			t.Errorf("%d are said to be released", n)
		}
		for _, l := range []*Lease{asked, detached, left} {
			if err := l.Unlock(); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		}
	})
}
