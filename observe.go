package leasehold

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of event. Fields not mentioned are zero, except Name.
const (
	EventHeld       EventKind = iota + 1 // a lease began with a claim of its own: Token, Waited
	EventHandoff                         // a lease began with a claim this process held already: Token, Waited
	EventWaiting                         // a caller has to wait: Own; not where it asks once
	EventGaveUp                          // a caller stopped waiting with nothing: Waited, Err
	EventRenewed                         // a held claim was renewed: Token, Held
	EventLost                            // a lease ended before Unlock: Token, Held, Reason, Err
	EventReleased                        // Unlock ended a lease that was proven to its end: Token, Held
	EventEngineDown                      // a call to the engine failed, after none had: Err; no Name
	EventRevoke                          // this client revoked a claim, its own or another's: Token as Queue shows its ticket, without handoffs
	EventEngineUp                        // a call succeeded again: Held is how long it was down; no Name
	EventDeadlock                        // a caller is the victim of a cycle, and gives up: Waited, Err with the cycle
	EventSettings                        // the engine's server is not set as the engine declares (durability, eviction, read-only), seen when a subscription began again: Err, each different one once; no Err: it is again; no Name
)

func (k EventKind) String() string {
	names := []string{"held", "handed off", "waiting", "gave up", "renewed", "lost", "released", "engine down", "revoke", "engine up", "deadlock", "settings"}
	if k < 1 || int(k) > len(names) {
		return fmt.Sprintf("event %d", uint8(k))
	}
	return names[k-1]
}

// Event is one thing that happened.
type Event struct {
	Kind           EventKind
	Name           string
	Token          Token
	Permits, Limit int32
	Waited         time.Duration // from asking until this event
	Held           time.Duration // from the lease's begin until this event
	Err            error

	// Reason, of EventLost: why, as the LostError in Err says it.
	Reason LossReason

	// Own, of EventWaiting: this Client holds the name already. A call that waits for
	// itself looks like that: it needs the lease's context (Lease.Bind).
	Own bool

	// Context is that of the call which asked for the lease, for what it carries: a
	// trace, a request's id. It may have ended. Nil where no lease was asked for.
	Context context.Context
}

// LogTo makes an Options.Observer that writes to a slog.Logger: losses as
// errors, revocations, deadlocks, an engine that is down and a server that is set
// otherwise than declared as warnings, that it is back as information, the rest at level debug.
func LogTo(log *slog.Logger) func(Event) {
	return func(e Event) {
		level := slog.LevelDebug
		switch e.Kind {
		case EventLost:
			level = slog.LevelError
		case EventEngineDown, EventRevoke, EventDeadlock:
			level = slog.LevelWarn
		case EventEngineUp:
			level = slog.LevelInfo
		case EventSettings:
			if level = slog.LevelInfo; e.Err != nil {
				level = slog.LevelWarn
			}
		}
		attrs := make([]slog.Attr, 0, 5)
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
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		ctx := e.Context
		if ctx == nil {
			ctx = context.Background()
		}
		log.LogAttrs(ctx, level, "leasehold: "+e.Kind.String(), attrs...)
	}
}
