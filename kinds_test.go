package leasehold_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/enginetest/kinds"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
)

// Engines of other kinds than memlock, in virtual time: what they advise and
// say must be heeded, and no more often than that.

// counted counts the calls that ask again, and ends what would go on for ever.
type counted struct {
	engine.Engine
	joins, asks *atomic.Int64
}

func newCounted(e engine.Engine) counted {
	return counted{e, &atomic.Int64{}, &atomic.Int64{}}
}

func (c counted) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if c.joins.Add(1) > 1 {
		if err := c.again(ctx); err != nil {
			return engine.Claim{}, err
		}
	}
	return c.Engine.Join(ctx, r)
}

func (c counted) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if err := c.again(ctx); err != nil {
		return nil, err
	}
	return c.Engine.Renew(ctx, rs)
}

func (c counted) again(ctx context.Context) error {
	if c.asks.Add(1) > 10_000 {
		<-ctx.Done() // lets time pass
		return ctx.Err()
	}
	return nil
}

// handOver has one client hold a name for held, while another waits; it returns
// how long the one that waits took from the Unlock on, and how often it asked.
func handOver(t *testing.T, held time.Duration, open func() engine.Engine, clock func() time.Duration) (late time.Duration, asks int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := func() (*leasehold.Client, *atomic.Int64) {
		e := newCounted(open())
		c, err := leasehold.New(&door.Engine{Engine: e, Clock: clock}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, e.asks
	}
	a, _ := client()
	defer a.Close()
	b, n := client()
	defer b.Close()
	first, err := a.Lock(ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	var at time.Time
	done := make(chan error, 1)
	go func() {
		second, err := b.Lock(ctx, "n")
		at, asks = time.Now(), n.Load()
		if err == nil {
			err = second.Unlock()
		}
		done <- err
	}()
	time.Sleep(held)
	unlocked := time.Now()
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return at.Sub(unlocked), asks
}

func inBubble(t *testing.T, f func(t *testing.T, s *memlock.Store, clock func() time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Duration { return time.Since(start) + time.Hour }
		f(t, memlock.NewStore(&memlock.Options{Clock: clock}), clock)
	})
}

// An engine that tells nobody says when to look, and that is when the core does.
func TestAPollingEngineIsAskedTooLateOrTooOften(t *testing.T) {
	const every, held = 50 * time.Millisecond, 2300 * time.Millisecond // between two renewals
	inBubble(t, func(t *testing.T, s *memlock.Store, clock func() time.Duration) {
		late, asks := handOver(t, held, func() engine.Engine { return kinds.Polling{Engine: s.Engine(), Every: every} }, clock)
		if late > every+10*time.Millisecond {
			t.Errorf("looking is worthwhile every %v, and the waiter held %v after the Unlock", every, late)
		}
		if most := int64(held/every) + 5; asks > most {
			t.Errorf("the waiter asked %d times in %v, want at most %d", asks, held, most)
		}
	})
}

// The first waiter is told when expiry alone makes room. A holder that is gone
// for good tells nobody.
func TestADeadHolderIsNoticedAtTheNextRenewalOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memlock.Store, clock func() time.Duration) {
		const ttl = 1650 * time.Millisecond // no multiple of what renewals take
		dead := s.Engine()
		r := engine.Request{Name: "n", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: ttl}
		if _, err := dead.Join(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		e := newCounted(s.Engine())
		c, err := leasehold.New(&door.Engine{Engine: e, Clock: clock}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l, err := c.Lock(ctx, "n")
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(start) - ttl; late < 0 || late > 10*time.Millisecond {
			t.Errorf("the claim of a dead holder expired after %v, and the waiter held %v later", ttl, late)
		}
		if n := e.asks.Load(); n > 4 {
			t.Errorf("the waiter asked %d times", n)
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
		_ = dead.Close()
	})
}

// An engine without order says when it is a good moment to try, and at that
// moment the core does.
func TestAGoodMomentToTryIsMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memlock.Store, clock func() time.Duration) {
		r := kinds.NewRegister(s)
		r.Notifies = true
		const held = 2500 * time.Millisecond // between two renewals
		late, asks := handOver(t, held, func() engine.Engine { return r.Engine() }, clock)
		if late > 10*time.Millisecond {
			t.Errorf("told to try, and held %v after the Unlock", late)
		}
		if asks < 1 || asks > 6 {
			t.Errorf("the waiter asked %d times in %v", asks, held)
		}
	})
}

// One that tells nobody is tried as often as it says.
func TestAnUnorderedEngineThatTellsNobodyIsTriedTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memlock.Store, clock func() time.Duration) {
		r := kinds.NewRegister(s)
		r.PollAfter = 50 * time.Millisecond
		late, asks := handOver(t, 2300*time.Millisecond, func() engine.Engine { return r.Engine() }, clock)
		if late > r.PollAfter+10*time.Millisecond {
			t.Errorf("held %v after the Unlock", late)
		}
		if asks > 52 {
			t.Errorf("the waiter asked %d times", asks)
		}
	})
}
