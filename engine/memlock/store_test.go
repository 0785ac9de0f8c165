package memlock

import (
	"testing"
	"time"

	"leasehold/engine"
)

// What is remembered of claims that are gone has a bound, and what it costs to
// forget them too: a walk over all is paid for by as many that went before.
func TestOwnersOfClaimsThatAreGonePileUp(t *testing.T) {
	s := NewStore(&Options{Clock: func() time.Duration { return 0 }})
	e := s.Engine()
	defer e.Close()
	keep := engine.Request{Name: "n", ID: engine.NewID(), Units: 1, Limit: 3, WaitTTL: time.Hour}
	if _, err := e.Join(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	walks, last := 0, 0
	count := func(n int) {
		if n > 2*2+8+1 {
			t.Fatalf("two claims are in line, and %d owners are remembered", n)
		}
		if n < last {
			walks++
		}
		last = n
	}
	const many = 1000
	for range many {
		r := engine.Request{Name: "n", ID: engine.NewID(), Units: 1, Limit: 3, WaitTTL: time.Hour}
		if _, err := e.Join(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		count(len(s.lines["n"].owners))
		if _, err := e.Leave(t.Context(), []engine.Claim{{Name: "n", ID: r.ID}}); err != nil {
			t.Fatal(err)
		}
		count(len(s.lines["n"].owners))
	}
	if walks > many/4 {
		t.Fatalf("%d claims came and went, and all owners were walked %d times", many, walks)
	}
}

// The wall clock seeds tickets; when it was set back, what keeps them rising
// over a forgotten name is the floor.
func TestTicketsFallOverAForgottenNameWhenTheClockWasSetBack(t *testing.T) {
	s := NewStore(&Options{Clock: func() time.Duration { return 0 }})
	e := s.Engine()
	defer e.Close()
	const ahead = engine.MaxTicket / 2 // as if the clock had been there
	s.floor = ahead
	for want := uint64(ahead + 1); want < ahead+5; want++ {
		r := engine.Request{Name: "n", ID: engine.NewID(), Units: 1, Limit: 1, WaitTTL: time.Hour}
		c, err := e.Join(t.Context(), r)
		if err != nil || c.Ticket != want {
			t.Fatalf("ticket %d, %v; want %d", c.Ticket, err, want)
		}
		if _, err := e.Leave(t.Context(), []engine.Claim{c}); err != nil || len(s.lines) != 0 {
			t.Fatalf("the name is not forgotten: %v", err)
		}
	}
}

func TestClosedClientsPileUp(t *testing.T) {
	s := NewStore(nil)
	for range 100 {
		e := s.Engine()
		_ = e.Close()
	}
	if len(s.clients) > 0 || len(s.lines) > 0 || len(s.sweep) > 0 {
		t.Fatalf("%d clients, %d lines", len(s.clients), len(s.lines))
	}
}
