package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/torture/history"
)

// looks is how long a look at what is left waits before the next.
const looks = 100 * time.Millisecond

// clean waits until nothing is left on the names of the trial: what a killed client had ends
// by its TTL. It records what is left after the bound, ends that, and returns what it could
// not end, in words.
func (t *trial) clean(ctx context.Context) (left []string) {
	left = t.until(ctx, bound(t.o.TTL), false)
	e := history.Event{Kind: history.Left, What: "claims", Value: int64(len(left)), Error: strings.Join(left, "; ")}
	t.witness.record(e)
	if len(left) > 0 {
		left = t.until(ctx, bound(t.o.TTL), true)
	}
	return left
}

// until looks at what is left until nothing is, for so long at most.
func (t *trial) until(ctx context.Context, most time.Duration, revoke bool) (left []string) {
	for end := time.Now().Add(most); ; {
		left = t.look(ctx, revoke)
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		wait(ctx, looks)
	}
}

// lookBound is how long one look may take.
const lookBound = 10 * time.Second

// look returns the claims on the names of the trial, and with revoke ends them.
func (t *trial) look(ctx context.Context, revoke bool) (left []string) {
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	eng, err := t.o.Open(ctx, t.o.URL)
	if err != nil {
		return []string{fmt.Sprintf("not known: %v", err)}
	}
	defer eng.Close()
	var found []engine.Queue
	for q, err := range eng.Queues(ctx, t.prefix) {
		if err != nil {
			return []string{fmt.Sprintf("not known: %v", err)}
		}
		found = append(found, q)
	}
	for _, q := range found {
		for _, c := range q.Claims {
			text := fmt.Sprintf("%s, ticket %d, %v", q.Name, c.Ticket, c.State)
			if revoke {
				if err := eng.Revoke(ctx, q.Name, c.Ticket, true); err != nil && !errors.Is(err, engine.ErrNoClaim) {
					text += ": " + err.Error()
				}
			}
			left = append(left, text)
		}
	}
	return left
}
