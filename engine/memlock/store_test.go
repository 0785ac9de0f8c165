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
	low, err := e.Join(t.Context(), engine.Request{Name: "low", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	const ahead = engine.MaxTicket / 2 // as if the clock had been there
	s.highWater = ahead
	for want := uint64(ahead + 1); want < ahead+5; want++ {
		r := engine.Request{Name: "n", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Hour}
		c, err := e.Join(t.Context(), r)
		if err != nil || c.Ticket != want {
			t.Fatalf("ticket %d, %v; want %d", c.Ticket, err, want)
		}
		for _, c := range []engine.Claim{c, low} { // the lower ticket is forgotten last
			if _, err := e.Leave(t.Context(), []engine.Claim{c}); err != nil || s.lines[c.Name] != nil {
				t.Fatalf("the name is not forgotten: %v", err)
			}
		}
	}
}

// What was read is the reader's own: Queue looks at it when the mutex of the
// store protects it no more.
func TestACellThatWasReadChanges(t *testing.T) {
	s := NewStore(nil)
	e := s.Engine()
	defer e.Close()
	c, err := e.Join(t.Context(), engine.Request{Name: "n", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	record, err := (&client{Store: s}).Read(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Leave(t.Context(), []engine.Claim{c}); err != nil {
		t.Fatal(err)
	}
	if got := record.Queue.Places[0].ID; got != c.ID {
		t.Fatalf("after a Leave, what was read before it has the claim %v, want %v", got, c.ID)
	}
}

func TestClosedClientsPileUp(t *testing.T) {
	s := NewStore(nil)
	for range 100 {
		e := s.Engine()
		_ = e.Close()
	}
	if len(s.clients) > 0 || len(s.lines) > 0 || len(s.sweep) > 0 {
		t.Fatalf("%d clients, %d queues", len(s.clients), len(s.lines))
	}
}
