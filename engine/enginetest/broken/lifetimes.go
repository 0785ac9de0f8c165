package broken

import (
	"context"
	"time"

	"leasehold/engine"
)

// lifetimes are faults of when a claim ends, and for whom.
func lifetimes() []Fault {
	return []Fault{
		{Name: "Renew forgets permits and limit", renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			c, err := e.renew(ctx, r)
			c.Permits, c.Limit = 0, 0
			return c, err
		}},
		{Name: "Renew grants half of what it was asked for", renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			r.Want = max(engine.MinTTL, r.Want/2)
			return e.renew(ctx, r)
		}},
		{Name: "a shorter Renew shortens", renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			c, err := e.renew(ctx, r)
			if k := e.w.claims[r.ID]; k != nil && err == nil {
				k.end = e.w.Now() + r.Want
			}
			return c, err
		}, before: func(w *World, name string) {
			for _, k := range w.claims {
				if k.Name == name && k.end > 0 && k.end <= w.Now() {
					_, _ = k.by.leave(context.Background(), engine.Claim{Name: name, ID: k.ID})
					delete(w.claims, k.ID)
				}
			}
		}},
		{Name: "an expired claim is revived", renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			// Its record still stands and nobody wants the name: why not?
			c, err := e.renew(ctx, r)
			if k := e.w.claims[r.ID]; err == nil && c.State == engine.Gone && k != nil && !k.marked && len(e.front(r.Name)) == 0 {
				again := k.Request
				again.WaitTTL, again.Replaces = r.Want, engine.ID{}
				return e.join(ctx, again)
			}
			return c, err
		}},
		{Name: "an expired claim is passed over and not removed", renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			c, err := e.renew(ctx, r)
			if k := e.w.claims[r.ID]; err == nil && c.State == engine.Gone && k != nil && !k.marked && len(e.front(r.Name)) > 0 {
				c.State, c.TTL, c.Ticket = engine.Held, r.Want, k.ticket
			}
			return c, err
		}},
		{Name: "held from a plain read of a clock that is ahead", reply: func(e *Engine, c engine.Claim) engine.Claim {
			if c.State != engine.Waiting {
				return c
			}
			for _, ahead := range e.front(c.Name) {
				if ahead.ID == c.ID {
					c.State = engine.Held
					return c
				}
				if ahead.Revoked || ahead.TTL > 50*time.Millisecond {
					return c
				}
			}
			return c
		}},
		{Name: "becoming held extends", leave: func(e *Engine, ctx context.Context, q engine.Claim) (engine.Claim, error) {
			before := map[engine.ID]engine.State{}
			for _, c := range e.front(q.Name) {
				before[c.ID] = c.State
			}
			got, err := e.leave(ctx, q)
			for _, c := range e.front(q.Name) {
				if c.State == engine.Held && before[c.ID] == engine.Waiting {
					_, _ = e.renew(ctx, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Hour})
				}
			}
			return got, err
		}},
		{Name: "a cancelled Join is an orphan", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > 5*time.Millisecond {
				return e.join(ctx, r)
			}
			// Its context ends while it is on its way.
			r.WaitTTL = time.Hour
			_, _ = e.inner.Load().Join(context.WithoutCancel(ctx), r)
			return engine.Claim{}, context.DeadlineExceeded
		}, leave: func(e *Engine, ctx context.Context, c engine.Claim) (engine.Claim, error) {
			// Only what a Join was seen to succeed with is worth a request.
			if e.w.claims[c.ID] == nil && ctx.Err() == nil {
				c.State = engine.Gone
				return c, nil
			}
			return e.leave(ctx, c)
		}},
		{Name: "Leave ends another's claim", leave: func(e *Engine, ctx context.Context, c engine.Claim) (engine.Claim, error) {
			k := e.w.claims[c.ID]
			if line := e.front(c.Name); len(line) > 0 && ctx.Err() == nil && !e.stands(c.Name, c.ID) && (k == nil || !k.marked) {
				_, _ = e.leave(ctx, line[0])
			}
			return e.leave(ctx, c)
		}},
		{Name: "Leave lies about what it found", leave: func(e *Engine, ctx context.Context, c engine.Claim) (engine.Claim, error) {
			got, err := e.leave(ctx, c)
			if k := e.w.claims[c.ID]; err == nil && got.State == engine.Held && k != nil && !k.held {
				got.State = engine.Waiting // that is what was last said
			}
			return got, err
		}},
		{Name: "a detached claim ends with its client", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			r.Detached = false
			return e.join(ctx, r)
		}},
		{Name: "Revoke does not check the ticket", revoke: func(e *Engine, ctx context.Context, name string, ticket uint64, now bool) error {
			if line := e.front(name); len(line) > 0 && e.w.byTicket(name, ticket) == nil && ctx.Err() == nil {
				ticket = line[0].Ticket
			}
			return e.revoke(ctx, name, ticket, now)
		}},
		{Name: "a marked claim is extended", renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			c, err := e.renew(ctx, r)
			if c.Revoked {
				e.w.pastOf(r.Name).veil = e.w.Now() + r.Want
			}
			return c, err
		}, leave: func(e *Engine, ctx context.Context, c engine.Claim) (engine.Claim, error) {
			e.w.pastOf(c.Name).veil = 0
			return e.leave(ctx, c)
		}, reply: func(e *Engine, c engine.Claim) engine.Claim {
			if c.State == engine.Held && e.w.Now() < e.w.pastOf(c.Name).veil {
				c.State = engine.Waiting
			}
			return c
		}},
		{Name: "a dead client holds on", immortal: true},
	}
}
