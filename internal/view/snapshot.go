package view

import (
	"slices"

	"leasehold/engine"
	"leasehold/internal/deadlock"
)

// Snapshot is every queue, read one after the other, with who waits for whom.
type Snapshot struct {
	Queues []engine.Queue // as they were given
	ByName map[string]engine.Queue
	Under  map[Key][]engine.Claim // who waits while holding that claim
}

// Key identifies a claim.
type Key struct {
	Name   string
	Ticket uint64
}

// NewSnapshot finds who waits for whom.
func NewSnapshot(queues []engine.Queue) *Snapshot {
	s := &Snapshot{Queues: queues, ByName: map[string]engine.Queue{}, Under: map[Key][]engine.Claim{}}
	for _, l := range queues {
		s.ByName[l.Name] = l
		for _, c := range l.Claims {
			if c.State != engine.Waiting {
				continue
			}
			for _, h := range c.Owner.Holds {
				k := Key{h.Name, h.Ticket}
				again := func(o engine.Claim) bool { return o.Name == c.Name && o.Ticket == c.Ticket } // a re-entered lease is named twice
				if !h.Elsewhere && !slices.ContainsFunc(s.Under[k], again) {
					s.Under[k] = append(s.Under[k], c)
				}
			}
		}
	}
	return s
}

// InCycle reports whether a waiting claim is part of a cycle, as far as queues that
// were read once can tell.
func (s *Snapshot) InCycle(c engine.Claim) bool {
	search, _ := s.search(c)
	return search.Verdict() != deadlock.Wait
}

// search is one pass for a waiting claim, to its end, and through how many claims it went.
func (s *Snapshot) search(c engine.Claim) (search *deadlock.Search, claims int) {
	search = deadlock.New(1, deadlock.Key{Name: c.Name}, c.Ticket)
	for keys := search.Next(); len(keys) > 0; keys = search.Next() {
		for _, k := range keys {
			q := s.ByName[k.Name]
			search.Read(k, q)
			claims += len(q.Claims)
		}
	}
	return search, claims
}
