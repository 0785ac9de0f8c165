package elect

import (
	"context"
	"iter"
	"time"

	"leasehold/engine"
)

// Leader is who led when the engine's queue was read. All of it but Ticket is what that
// process said of itself: untrusted, so escape it before it reaches a terminal or a page.
type Leader struct {
	Value  string
	Host   string
	PID    int
	Ticket uint64 // higher than that of every leader before; 0: nobody leads
}

// Leader returns who leads, read from the engine once. It returns ErrNoLeader if nobody does,
// and the error of the engine.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	l, err := e.read(ctx)
	if err == nil && l.Ticket == 0 {
		err = e.wrap(ErrNoLeader)
	}
	return l, err
}

func (e *Election) read(ctx context.Context) (Leader, error) {
	queue, err := e.locks.Queue(ctx, e.name)
	if err != nil {
		return Leader{}, e.wrap(err)
	}
	for _, c := range queue.Claims {
		if c.State == engine.Held {
			return Leader{Value: c.Owner.Label, Host: c.Owner.Host, PID: c.Owner.PID, Ticket: c.Ticket}, nil
		}
	}
	return Leader{}, nil
}

// Observe yields who leads, at once and after each change, until ctx ends; a Leader with
// Ticket 0 if nobody does. It reads the queue once in each Options.Every, so a leader between
// two reads is not seen. While the queue cannot be read it yields the first error alone,
// and then who leads again.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		known, failed := false, false
		for ctx.Err() == nil {
			l, err := e.read(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failed && !yield(Leader{}, err) {
					return
				}
				known, failed = false, true
			case !known || l != last:
				last, known, failed = l, true, false
				if !yield(l, nil) {
					return
				}
			}
			select {
			case <-time.After(e.o.Every):
			case <-ctx.Done():
			}
		}
	}
}
