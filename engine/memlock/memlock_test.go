package memlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

// store is a store under a clock that only the test moves.
func store() (*memlock.Store, func(time.Duration)) {
	var now atomic.Int64
	s := memlock.NewStore(&memlock.Options{Clock: func() time.Duration { return time.Duration(now.Load()) }})
	return s, func(d time.Duration) { now.Add(int64(d)) }
}

func want(name string, ttl time.Duration) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: ttl}
}

func join(t *testing.T, e *memlock.Engine, r engine.Request, state engine.State) engine.Claim {
	t.Helper()
	c, err := e.Join(t.Context(), r)
	if err != nil || c.State != state {
		t.Fatalf("Join: %v, %v; want %v", c.State, err, state)
	}
	return c
}

func open(t *testing.T, s *memlock.Store) *memlock.Engine {
	e := s.Engine()
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// Invariant 10: a name that nobody touches again costs nothing, after a number
// of other updates that is bounded by the size of the store.
func TestQueuesThatOnlyExpiredAreKept(t *testing.T) {
	s, pass := store()
	e := open(t, s)
	const many = 1000
	for i := range many {
		join(t, e, want(fmt.Sprint("brief", i), time.Second), engine.Held)
	}
	var kept []engine.Claim
	for i := range 10 {
		kept = append(kept, join(t, e, want(fmt.Sprint("long", i), time.Hour), engine.Held))
	}
	if s.Len() != many+10 {
		t.Fatalf("the store knows %d names", s.Len())
	}
	last := join(t, e, want("last", time.Second), engine.Held)
	pass(time.Second)
	for i := range (many + 11) / 2 * 2 {
		join(t, e, want("other", time.Second), engine.Held)
		pass(time.Second)
		if s.Len() <= len(kept)+1 {
			t.Logf("forgotten after %d updates", i+1)
			break
		}
	}
	if s.Len() > len(kept)+1 {
		t.Fatalf("all but %d names expired, and the store knows %d", len(kept), s.Len())
	}
	// What lives is untouched, and tickets of forgotten names go on rising.
	cs, err := e.Leave(t.Context(), kept)
	if err != nil || len(cs) != len(kept) {
		t.Fatalf("Leave: %d claims, %v", len(cs), err)
	}
	for _, c := range cs {
		if c.State != engine.Held {
			t.Fatalf("a live claim was swept away: %v", c.State)
		}
	}
	if again := join(t, e, want("last", time.Second), engine.Held); again.Ticket <= last.Ticket {
		t.Fatalf("the forgotten name had ticket %d, now it has %d", last.Ticket, again.Ticket)
	}
}

// A sweep that kept pace with one update only would never catch up with a
// caller who joins a fresh name each time.
func TestTheStoreGrowsWithFreshNames(t *testing.T) {
	s, pass := store()
	e := open(t, s)
	most := 0
	for i := range 20_000 {
		join(t, e, want(fmt.Sprint(i), engine.MinTTL), engine.Held)
		pass(engine.MinTTL / 100) // a hundred are alive at any time
		most = max(most, s.Len())
	}
	if most > 500 {
		t.Fatalf("a hundred names are alive at a time, and the store grew to %d", most)
	}
}

// A client that does not watch must not make others' notifications pile up, and learns
// that it missed some.
func TestNotificationsOfADeafClientPileUp(t *testing.T) {
	s, _ := store()
	deaf, other := open(t, s), open(t, s)
	const many = 3000
	for i := range many {
		name := fmt.Sprint(i)
		c := join(t, other, want(name, time.Minute), engine.Held)
		join(t, deaf, want(name, time.Minute), engine.Waiting)
		if _, err := other.Leave(t.Context(), []engine.Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var looks, notifications int
	err := deaf.Watch(ctx, func(c engine.Claim) {
		if c.Name == "" {
			looks++
			return
		}
		if notifications++; notifications == 1024 {
			cancel()
		}
		if notifications > 1024 {
			t.Error("more notifications were kept than the bound")
		}
	})
	if !errors.Is(err, context.Canceled) || looks != 2 {
		t.Fatalf("Watch ended with %v after %d times saying look at everything; want one for its begin and one for the lost notifications", err, looks)
	}
}

func TestAnOwnerIsLostOrMixedUp(t *testing.T) {
	s, _ := store()
	e := open(t, s)
	var line []engine.Claim
	for i := range 500 {
		state := engine.Waiting
		if i == 0 {
			state = engine.Held
		}
		r := want("n", time.Hour)
		r.Owner.Label = fmt.Sprint(i)
		line = append(line, join(t, e, r, state))
	}
	for i, c := range line[:490] {
		got, err := e.Leave(t.Context(), []engine.Claim{c})
		if err != nil || got[0].State != engine.Held {
			t.Fatalf("claim %d was found %v, %v", i, got, err)
		}
	}
	l, err := e.Queue(t.Context(), "n")
	if err != nil || len(l.Claims) != 10 {
		t.Fatalf("the queue has %d claims, %v", len(l.Claims), err)
	}
	for i, c := range l.Claims {
		if c.Owner.Label != fmt.Sprint(490+i) {
			t.Fatalf("place %d has the owner %q", i, c.Owner.Label)
		}
	}
}

// The engine starts no goroutine and no timer of its own, so it works inside a
// bubble, where the core above it is tested.
func TestItDoesNotWorkInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := memlock.NewStore(&memlock.Options{Clock: func() time.Duration { return time.Since(start) }})
		a, b := s.Engine(), s.Engine()
		ctx, cancel := context.WithCancel(t.Context())
		notified := make(chan engine.Claim, 8)
		done := make(chan error, 1)
		go func() { done <- b.Watch(ctx, func(c engine.Claim) { notified <- c }) }()
		<-notified // it began
		first := join(t, a, want("n", time.Minute), engine.Held)
		second := join(t, b, want("n", time.Hour), engine.Waiting)
		if second.PollAfter != time.Minute {
			t.Errorf("Look of the first waiter is %v, the holder ends in a minute", second.PollAfter)
		}
		time.Sleep(time.Minute)
		if _, err := a.Renew(ctx, []engine.Renewal{{Name: "n", ID: first.ID, Want: time.Minute}}); err != nil {
			t.Error(err)
		}
		if c := <-notified; c.ID != second.ID || c.State != engine.Held {
			t.Errorf("told %v", c)
		}
		cancel()
		<-done
		_, _ = a.Close(), b.Close()
	})
}

func TestTwoStoresShareAQueue(t *testing.T) {
	a, b := memlock.New(), memlock.New()
	defer a.Close()
	defer b.Close()
	join(t, a, want("n", time.Minute), engine.Held)
	join(t, b, want("n", time.Minute), engine.Held)
}

// A closed client's claims are free, and who holds then is told, as with Leave.
func TestCloseTellsNobody(t *testing.T) {
	s, _ := store()
	a, b := s.Engine(), open(t, s)
	join(t, a, want("n", time.Hour), engine.Held)
	second := join(t, b, want("n", time.Hour), engine.Waiting)
	_ = a.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	notified := false
	_ = b.Watch(ctx, func(c engine.Claim) {
		if c.ID == second.ID && c.State == engine.Held {
			notified = true
			cancel()
		}
	})
	if !notified {
		t.Fatal("the holder's client was closed, and who waited was not told")
	}
}
