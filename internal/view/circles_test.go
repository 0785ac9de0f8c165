package view

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/deadlock"
)

// Circles looks only where a circle can go through, and finds what a search for each claim
// finds.
func TestCirclesAreThoseOfEachClaim(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	found, none := 0, 0
	for seed := range 3000 {
		chance := rand.New(rand.NewPCG(uint64(seed), 1))
		var qs []engine.Queue
		ticket := uint64(0)
		var held []engine.Hold
		for _, n := range names {
			ticket++
			c := engine.Claim{Name: n, Ticket: ticket, State: engine.Held, Permits: engine.Max, Limit: engine.Max, TTL: time.Minute}
			qs = append(qs, engine.Queue{Name: n, Limit: engine.Max, Claims: []engine.Claim{c}})
			held = append(held, engine.Hold{Name: n, Ticket: ticket})
		}
		for range chance.IntN(8) {
			ticket++
			q := &qs[chance.IntN(len(qs))]
			c := engine.Claim{Name: q.Name, Ticket: ticket, State: engine.Waiting, Permits: engine.Max, Limit: engine.Max, TTL: time.Minute}
			for range chance.IntN(3) {
				c.Owner.Holds = append(c.Owner.Holds, held[chance.IntN(len(held))])
			}
			q.Claims = append(q.Claims, c)
		}
		s := NewSnapshot(qs)
		got := s.Circles(0)
		members := 0
		for _, q := range qs {
			for _, c := range q.Claims {
				in := c.State == engine.Waiting && s.InCycle(c)
				if in {
					members++
				}
				if got.In[Key{c.Name, c.Ticket}] != in {
					t.Fatalf("seed %d, %s:%d: in a circle %v, want %v", seed, c.Name, c.Ticket, !in, in)
				}
			}
		}
		if members == 0 {
			none++
			continue
		}
		found++
		if len(got.Cycles) == 0 || len(got.Cycles[0].Steps) == 0 {
			t.Fatalf("seed %d: %d members, and no way round: %+v", seed, members, got.Cycles)
		}
	}
	if found < 100 || none < 100 {
		t.Errorf("%d worlds with a circle and %d without are too few to tell", found, none)
	}
}

// Very many who wait and hold nothing cost no search.
func TestACrowdIsNotSearched(t *testing.T) {
	q := engine.Queue{Name: "a", Limit: engine.Max, Claims: []engine.Claim{{Name: "a", Ticket: 1, State: engine.Held, Permits: engine.Max, Limit: engine.Max}}}
	for i := range 5000 {
		q.Claims = append(q.Claims, engine.Claim{Name: "a", Ticket: uint64(i + 2), State: engine.Waiting, Permits: engine.Max, Limit: engine.Max})
	}
	if got := NewSnapshot([]engine.Queue{q}).Circles(1); got.Cut || len(got.In) > 0 {
		t.Errorf("searched: %+v", got)
	}
}

// A bound that is reached is said.
func TestABoundOfSearchesIsSaid(t *testing.T) {
	claim := func(name string, ticket uint64, s engine.State, holds ...engine.Hold) engine.Claim {
		return engine.Claim{Name: name, Ticket: ticket, State: s, Permits: engine.Max, Limit: engine.Max, TTL: time.Minute, Owner: engine.Owner{Holds: holds}}
	}
	s := NewSnapshot([]engine.Queue{
		{Name: "a", Limit: engine.Max, Claims: []engine.Claim{claim("a", 1, engine.Held), claim("a", 4, engine.Waiting, engine.Hold{Name: "b", Ticket: 2})}},
		{Name: "b", Limit: engine.Max, Claims: []engine.Claim{claim("b", 2, engine.Held), claim("b", 3, engine.Waiting, engine.Hold{Name: "a", Ticket: 1})}},
	})
	if got := s.Circles(1); !got.Cut || len(got.In) != 1 {
		t.Errorf("with one claim: %+v", got)
	}
	got := s.Circles(100)
	if got.Cut || len(got.In) != 2 || len(got.Cycles) != 1 || got.Cycles[0].Victim.Ticket != 4 || len(got.Cycles[0].Steps) != 2 {
		t.Errorf("with enough: %+v", got)
	}
}

// So is the bound of one search, which then finds nothing.
func TestABoundOfOneSearchIsSaid(t *testing.T) {
	const members = deadlock.MaxDepth + 6
	var queues []engine.Queue
	for i := range members {
		name, next := fmt.Sprint("n", i), (i+1)%members
		claim := engine.Claim{Name: name, Ticket: uint64(i + 1), State: engine.Held, Permits: engine.Max, Limit: engine.Max, TTL: time.Minute}
		wait := claim
		wait.Ticket, wait.State = uint64(1000+i), engine.Waiting
		wait.Owner.Holds = []engine.Hold{{Name: fmt.Sprint("n", next), Ticket: uint64(next + 1)}}
		queues = append(queues, engine.Queue{Name: name, Limit: engine.Max, Claims: []engine.Claim{claim, wait}})
	}
	if got := NewSnapshot(queues).Circles(0); !got.Cut || len(got.In) > 0 {
		t.Errorf("of %d members: cut %v, %d found", members, got.Cut, len(got.In))
	}
}
