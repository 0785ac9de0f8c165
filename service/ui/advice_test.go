package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/deadlock"
)

func claimed(name string, ticket uint64, state engine.State, holds ...engine.Hold) engine.Claim {
	return engine.Claim{Name: name, Ticket: ticket, State: state, Permits: engine.Max, Limit: engine.Max, TTL: time.Minute, Owner: engine.Owner{Label: fmt.Sprint("owner", ticket), Holds: holds}}
}

// None of several holders is the one on whom all depends, wherever they stand.
func TestOfSeveralHoldersEachIsToBeLookedAt(t *testing.T) {
	shared := func(name string, ticket uint64) engine.Claim {
		c := claimed(name, ticket, engine.Held)
		c.Permits = 1
		return c
	}
	around := newPicture([]engine.Queue{ // 4 and 5 wait for each other, whatever 2 does
		{Name: "a", Limit: engine.Max, Claims: []engine.Claim{shared("a", 1), shared("a", 2), claimed("a", 5, engine.Waiting, engine.Hold{Name: "b", Ticket: 3})}},
		{Name: "b", Limit: engine.Max, Claims: []engine.Claim{claimed("b", 3, engine.Held), claimed("b", 4, engine.Waiting, engine.Hold{Name: "a", Ticket: 1})}},
	}, nil)
	apart := newPicture([]engine.Queue{
		{Name: "a", Limit: engine.Max, Claims: []engine.Claim{shared("a", 1), shared("a", 2), claimed("a", 4, engine.Waiting)}},
		{Name: "b", Limit: engine.Max, Claims: []engine.Claim{claimed("b", 3, engine.Held)}},
	}, nil)
	if got := adviceFor(around, "a"); !strings.HasPrefix(got, "2 callers wait for each other in a circle") {
		t.Errorf("in a circle: %s", got)
	}
	if got, want := adviceFor(apart, "a"), "2 callers hold a: look at each of them below."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := adviceFor(apart, "b"); !strings.HasPrefix(got, "All depends on owner3, which holds b") {
		t.Errorf("one holder: %s", got)
	}
}

// A circle that is longer than a search goes is not found. The page says that it may be there.
func TestNoCircleIsSaidOnlyIfAllWereLookedFor(t *testing.T) {
	const members = deadlock.MaxDepth + 6
	var queues []engine.Queue
	for i := range members {
		name, next := fmt.Sprintf("n%03d", i), fmt.Sprintf("n%03d", (i+1)%members)
		queues = append(queues, engine.Queue{Name: name, Limit: engine.Max, Claims: []engine.Claim{
			claimed(name, uint64(i+1), engine.Held),
			claimed(name, uint64(1000+i), engine.Waiting, engine.Hold{Name: next, Ticket: uint64((i+1)%members + 1)}),
		}})
	}
	unsure := "No circle was found, but not all could be looked for. The longest wait"
	if got := advice(newPicture(queues, nil)); !strings.HasPrefix(got, unsure) {
		t.Error(got)
	}
	line := newPicture(queues[:3], nil)
	if got := advice(line); !strings.HasPrefix(got, "Nobody waits in a circle.") {
		t.Error(got)
	}
	line.cut = true
	if got := advice(line); !strings.HasPrefix(got, unsure) {
		t.Errorf("with more names: %s", got)
	}
}
