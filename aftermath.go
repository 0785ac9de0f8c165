package leasehold

import (
	"context"
	"time"

	"leasehold/engine"
)

// aftermath is the losses of which the Observer has not been told yet who holds the name
// now. All under core.mu.
type aftermath struct {
	losses []loss
	under  bool // somebody looks
}

// loss is a lease that was lost.
type loss struct {
	lease *Lease
	until time.Duration // nobody looks any more
}

const (
	// maxLosses bounds the losses that are looked after: after a crowd of them a few
	// names tell as much.
	maxLosses = 16

	// lookLong is how long a loss is looked after, while the engine is silent or the
	// claim itself stands in the queue still.
	lookLong = time.Minute

	// lookPause is between two looks.
	lookPause = time.Second
)

// lookAfterLocked has somebody look who holds the name of a lost lease. Nobody needs it
// but the Observer.
func (k *core) lookAfterLocked(l *Lease) {
	if k.opts.Observer == nil || len(k.after.losses) == maxLosses {
		return
	}
	k.after.losses = append(k.after.losses, loss{l, k.now() + lookLong})
	if !k.after.under {
		k.after.under = true
		k.spawnLocked(k.lookAfter)
	}
}

// lookAfter looks until each loss is told or too old: one call at a time.
func (k *core) lookAfter() {
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for {
		k.mu.Lock()
		losses := k.after.losses
		k.after.losses = nil
		k.unlock()
		var rest []loss
		for i, l := range losses {
			ctx, cancel := context.WithTimeout(k.joining, lookPause)
			q, err := k.eng.Queue(ctx, l.lease.name)
			cancel()
			if err != nil {
				rest = append(rest, losses[i:]...)
				break // the others would fail as well
			}
			if holders, own := holdersOf(q, l.lease.token.Ticket()); own {
				rest = append(rest, l)
			} else {
				k.mu.Lock()
				l.lease.tellAfterLocked(holders)
				k.unlock()
			}
		}
		k.mu.Lock()
		now := k.now()
		for _, l := range rest {
			if now < l.until && len(k.after.losses) < maxLosses {
				k.after.losses = append(k.after.losses, l)
			}
		}
		over := k.closed || len(k.after.losses) == 0
		k.after.under = !over
		k.unlock()
		if over {
			return
		}
		select {
		case <-pause.C:
		case <-k.joining.Done():
			return
		}
	}
}

// holdersOf are the holders in a queue, and whether a ticket is one of theirs.
func holdersOf(q engine.Queue, ticket uint64) (holders []engine.Claim, own bool) {
	for _, c := range q.Claims {
		if c.State == engine.Held {
			holders = append(holders, c)
			own = own || c.Ticket == ticket
		}
	}
	return holders, own
}

func (l *Lease) tellAfterLocked(holders []engine.Claim) {
	e := Event{Kind: EventAfterLoss}
	if len(holders) > 0 {
		e.Err = &HeldError{Name: l.name, By: holders}
	}
	l.eventLocked(e)
}
