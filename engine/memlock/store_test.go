package memlock

import (
	"testing"
	"time"

	"leasehold/engine"
)

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
