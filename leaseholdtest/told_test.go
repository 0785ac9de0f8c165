package leaseholdtest

import (
	"testing"

	"leasehold/engine"
)

// In a bubble, where the clock stands, claims of all names have one ticket.
func TestTheEndOfAnotherClaimIsNotTheOneThatLoseWaitsFor(t *testing.T) {
	var w notified
	done := w.expect("x", 7)
	isDone := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	for why, c := range map[string]engine.Claim{
		"another name":         {Name: "y", Ticket: 7, State: engine.Gone},
		"another ticket":       {Name: "x", Ticket: 8, State: engine.Gone},
		"it is only contended": {Name: "x", Ticket: 7, State: engine.Held, Contended: true},
		"look at all":          {},
	} {
		if w.passed(c); isDone() {
			t.Fatal(why)
		}
	}
	gone := engine.Claim{Name: "x", Ticket: 7, State: engine.Gone}
	if w.passed(gone); !isDone() {
		t.Fatal("not done when its client was told")
	}
	w.passed(gone) // told again: notifications may be repeated
}
