package main

import (
	"context"
	"fmt"
	"strings"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/view"
)

// readSnapshot reads all queues: what a holder waits for may be in any of them.
func readSnapshot(ctx context.Context, locks *leasehold.Client) (*view.Snapshot, error) {
	if !locks.Guarantees().SeesWaiters {
		return nil, usageError("this engine does not show who waits: choose an engine that does (--require waiters)")
	}
	queues, err := readQueues(ctx, locks, "")
	if err != nil {
		return nil, err
	}
	return view.NewSnapshot(queues), nil
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
