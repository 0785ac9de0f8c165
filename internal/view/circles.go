package view

import (
	"leasehold/engine"
	"leasehold/internal/deadlock"
)

// Circles is who waits in a circle, as far as queues that were read once can tell.
type Circles struct {
	In     map[Key]bool // the waiting claims
	Cycles []Cycle      // one for each victim
	Cut    bool         // a bound was reached, of all searches or of one: there may be more
}

// Cycle is one way round.
type Cycle struct {
	Victim engine.Claim    // which gives up when its caller looks for deadlocks
	Steps  []deadlock.Step // the shortest way round from the victim back to it
}

// Circles looks for circles. Its searches, one for each waiting claim that can be part of one,
// go through so many claims at most, in all; 0 is no bound.
func (s *Snapshot) Circles(most int) *Circles {
	found := &Circles{In: map[Key]bool{}}
	around := s.around()
	claims := 0
	for _, q := range s.Queues {
		if !around[q.Name] {
			continue
		}
		for _, c := range q.Claims {
			if c.State != engine.Waiting {
				continue
			}
			if most > 0 && claims >= most {
				found.Cut = true
				return found
			}
			search, n := s.search(c)
			claims += n
			found.Cut = found.Cut || search.Bounded()
			verdict := search.Verdict()
			if verdict == deadlock.Wait {
				continue
			}
			found.In[Key{c.Name, c.Ticket}] = true
			if verdict == deadlock.Victim {
				found.Cycles = append(found.Cycles, Cycle{c, search.Cycle()})
			}
		}
	}
	return found
}

// around is the queues through which a circle can go: waiters there name what they hold, so
// their queue leads to that of the hold, and a circle comes back. Queues that lead nowhere,
// or to which nothing leads, are taken away until none is left of them. So a crowd of
// waiters who hold nothing costs no search each.
func (s *Snapshot) around() map[string]bool {
	to, from := map[string]map[string]bool{}, map[string]map[string]bool{}
	link := func(m map[string]map[string]bool, a, b string) {
		if m[a] == nil {
			m[a] = map[string]bool{}
		}
		m[a][b] = true
	}
	for _, q := range s.Queues {
		for _, c := range q.Claims {
			if c.State == engine.Waiting {
				for _, h := range c.Owner.Holds {
					link(to, q.Name, h.Name)
					link(from, h.Name, q.Name)
				}
			}
		}
	}
	left := map[string]bool{}
	var idle []string
	for _, q := range s.Queues {
		if left[q.Name] = true; len(to[q.Name]) == 0 || len(from[q.Name]) == 0 {
			idle = append(idle, q.Name)
		}
	}
	for name := range from { // that nobody was seen to hold
		if !left[name] {
			left[name] = true
			idle = append(idle, name)
		}
	}
	for len(idle) > 0 {
		name := idle[len(idle)-1]
		idle = idle[:len(idle)-1]
		if !left[name] {
			continue
		}
		delete(left, name)
		for next := range to[name] {
			if delete(from[next], name); len(from[next]) == 0 {
				idle = append(idle, next)
			}
		}
		for before := range from[name] {
			if delete(to[before], name); len(to[before]) == 0 {
				idle = append(idle, before)
			}
		}
	}
	return left
}
