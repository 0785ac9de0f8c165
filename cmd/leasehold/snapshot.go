package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/deadlock"
)

// snapshot is every queue, read one after the other, with who waits for whom.
type snapshot struct {
	queues []engine.Queue // sorted by name
	byName map[string]engine.Queue
	under  map[claimKey][]engine.Claim // who waits while holding that claim
}

// claimKey identifies a claim.
type claimKey struct {
	name   string
	ticket uint64
}

// readSnapshot reads all queues: what a holder waits for may be in any of them.
func readSnapshot(ctx context.Context, locks *leasehold.Client) (*snapshot, error) {
	if !locks.Guarantees().SeesWaiters {
		return nil, usageError("this engine does not show who waits: choose an engine that does (--require waiters)")
	}
	queues, err := readQueues(ctx, locks, "")
	if err != nil {
		return nil, err
	}
	return newSnapshot(queues), nil
}

func newSnapshot(queues []engine.Queue) *snapshot {
	s := &snapshot{queues: queues, byName: map[string]engine.Queue{}, under: map[claimKey][]engine.Claim{}}
	for _, l := range queues {
		s.byName[l.Name] = l
		for _, c := range l.Claims {
			if c.State != engine.Waiting {
				continue
			}
			for _, h := range c.Owner.Holds {
				k := claimKey{h.Name, h.Ticket}
				again := func(o engine.Claim) bool { return o.Name == c.Name && o.Ticket == c.Ticket } // a re-entered lease is named twice
				if !h.Elsewhere && !slices.ContainsFunc(s.under[k], again) {
					s.under[k] = append(s.under[k], c)
				}
			}
		}
	}
	return s
}

// inCycle reports whether a waiting claim is part of a cycle, as far as queues that
// were read once can tell.
func (s *snapshot) inCycle(c engine.Claim) bool {
	search := deadlock.New(1, deadlock.Key{Name: c.Name}, c.Ticket)
	for keys := search.Next(); len(keys) > 0; keys = search.Next() {
		for _, k := range keys {
			search.Read(k, s.byName[k.Name])
		}
	}
	return search.Verdict() != deadlock.Wait
}

// holdsText is what an owner said that it holds: name:ticket of each.
func holdsText(o engine.Owner) string {
	var holds []string
	for _, h := range o.Holds {
		text := fmt.Sprintf("%s:%d", quoteName(h.Name), h.Ticket)
		if h.Elsewhere {
			text += " (another client's)"
		}
		holds = append(holds, text)
	}
	return strings.Join(holds, ", ")
}

// withHolds adds a last column with what owners hold, if one of them holds anything.
// The first row is the heading.
func withHolds(rows [][]string, owners []engine.Owner) [][]string {
	for _, o := range owners {
		if len(o.Holds) == 0 {
			continue
		}
		rows[0] = append(rows[0], "HOLDS")
		for i, o := range owners {
			rows[i+1] = append(rows[i+1], holdsText(o))
		}
		break
	}
	return rows
}
