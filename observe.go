package leasehold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// EventKind is the kind of an Event.
type EventKind uint8

// These are the kinds of event. Each names the fields that it sets besides Name; the
// others are zero.
const (
	EventHeld       EventKind = iota + 1 // a lease began with a claim of its own: Token, Waited
	EventHandoff                         // a lease began with a claim that this process held already: Token, Waited
	EventWaiting                         // a call has to wait (a Try never does): Own
	EventGaveUp                          // a caller stopped waiting with nothing: Waited, Err
	EventRenewed                         // a held claim was renewed: Token, Held
	EventLost                            // a lease ended before Unlock: Token, Held, Reason, Err, Silent
	EventReleased                        // Unlock ended a lease that was proven to its end: Token, Held
	EventEngineDown                      // a call to the engine failed, after none had: Err; no Name
	EventRevoke                          // this client revoked a claim, its own or another's: Token as Queue shows its ticket, without handoffs
	EventEngineUp                        // a call succeeded again: Held is how long the engine was down; no Name
	EventDeadlock                        // a caller is the victim of a cycle, and gives up: Waited, Err with the cycle
	EventSettings                        // the engine's server is not configured as the engine declares (durability, eviction, read-only), or is so again; no Name. A new subscription reads the settings. Err: each different error once, nil when all is as declared
	EventAfterLoss                       // who holds the name of a lost lease, as soon as the engine says it, within a minute: Token (the lost one), Err with a HeldError; Err is nil if nobody holds it. The Client looks after 16 losses at once, not more
)

// String returns the kind in one or two words.
func (k EventKind) String() string {
	names := []string{"held", "handed off", "waiting", "gave up", "renewed", "lost", "released", "engine down", "revoke", "engine up", "deadlock", "settings", "after loss"}
	if k < 1 || int(k) > len(names) {
		return fmt.Sprintf("event %d", uint8(k))
	}
	return names[k-1]
}

// Event is what an Observer receives.
type Event struct {
	Kind           EventKind
	Name           string
	Token          Token
	Permits, Limit int32
	Waited         time.Duration // from asking until this event
	Held           time.Duration // from the beginning of the lease until this event
	Err            error

	// Reason is why the lease was lost (EventLost), as the LostError in Err says it.
	Reason LossReason

	// Silent is how long the engine has not proven the lease (EventLost with LossExpired):
	// since the beginning of the last call that did.
	Silent time.Duration

	// Call is the number of a call of this Client that had to wait: the same in its
	// EventWaiting, in EventDeadlock, and in the EventHeld, EventHandoff or EventGaveUp
	// that ends the waiting. Those come in that order, from the goroutine of the call. 0
	// is of a call that did not have to wait, and of every other kind of event.
	Call uint64

	// Own reports that this Client holds the name already (EventWaiting). A call that
	// waits for itself shows like that: it needs the lease's context (Lease.Bind).
	Own bool

	// Context is the context of the call that asked for the lease, for its values: a
	// trace, a request's ID. It may have ended. It is nil if no call asked for a lease.
	Context context.Context
}

// LogTo returns an Options.Observer that writes to log. Losses are errors. Warnings are
// revocations, deadlocks, an engine that is down, and a server that is not configured
// as declared. The end of either of the last two is information, and so is who holds the
// name after a loss. All other events have level debug.
func LogTo(log *slog.Logger) func(Event) {
	return func(e Event) {
		level := slog.LevelDebug
		switch e.Kind {
		case EventLost:
			level = slog.LevelError
		case EventEngineDown, EventRevoke, EventDeadlock:
			level = slog.LevelWarn
		case EventEngineUp, EventAfterLoss:
			level = slog.LevelInfo
		case EventSettings:
			if level = slog.LevelInfo; e.Err != nil {
				level = slog.LevelWarn
			}
		}
		attrs := make([]slog.Attr, 0, 6)
		if e.Name != "" {
			attrs = append(attrs, slog.String("name", e.Name))
		}
		if e.Token != 0 {
			attrs = append(attrs, slog.String("token", e.Token.String()))
		}
		if e.Waited > 0 {
			attrs = append(attrs, slog.Duration("waited", e.Waited))
		}
		if e.Held > 0 {
			attrs = append(attrs, slog.Duration("held", e.Held))
		}
		if e.Reason != 0 {
			attrs = append(attrs, slog.String("reason", e.Reason.String()))
		}
		if e.Own {
			attrs = append(attrs, slog.String("by", ownHint))
		}
		if e.Silent > 0 {
			attrs = append(attrs, slog.Duration("silent", e.Silent))
		}
		if e.Kind == EventAfterLoss {
			attrs = append(attrs, holderAttrs(e.Err)...)
		} else if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		ctx := e.Context
		if ctx == nil {
			ctx = context.Background()
		}
		log.LogAttrs(ctx, level, "leasehold: "+e.Kind.String(), attrs...)
	}
}

// holderAttrs say who holds a name.
func holderAttrs(err error) []slog.Attr {
	held, ok := errors.AsType[*HeldError](err)
	if !ok || len(held.By) == 0 {
		return []slog.Attr{slog.String("holder", "nobody")}
	}
	first := held.By[0]
	return []slog.Attr{slog.String("holder", first.Owner.String()), slog.String("ticket", fmt.Sprint(first.Ticket)), slog.Int("holders", len(held.By))}
}
