package broken

import (
	"context"
	"time"

	"leasehold/engine"
)

// grants are faults of who holds, and in which order.
func grants() []Fault {
	return []Fault{
		{Name: "a race lets two hold", reply: func(e *Engine, c engine.Claim) engine.Claim {
			// Rare: one Join in twenty that must wait.
			if p := e.w.pastOf(c.Name); c.State == engine.Waiting && p.waits >= 20 {
				p.waits, c.State = 0, engine.Held
			}
			return c
		}},
		{Name: "readers overtake a waiting writer", join: func(e *Engine, ctx context.Context, r engine.Request) (c engine.Claim, err error) {
			line := e.front(r.Name)
			if r.Permits != 1 || r.Limit != engine.Max || r.NoWait || len(line) < 2 || line[0].Permits != 1 || e.w.claims[r.ID] != nil {
				return e.join(ctx, r)
			}
			e.aside(r.Name, func() { c, err = e.join(ctx, r) }, asTheyWere)
			return c, err
		}},
		{Name: "grant out of order", leave: func(e *Engine, ctx context.Context, q engine.Claim) (c engine.Claim, err error) {
			// Of three or more who wait for a name alone, the last is next.
			line, waiting := e.front(q.Name), 0
			for _, x := range line {
				if x.State == engine.Waiting && x.Permits == engine.Max {
					waiting++
				}
			}
			if waiting < 3 || waiting > 8 || waiting < len(line)-1 || line[0].ID != q.ID {
				return e.leave(ctx, q)
			}
			e.aside(q.Name, func() {}, func(ks []*claim) []*claim {
				last := len(ks) - 1
				return append([]*claim{ks[last]}, ks[:last]...)
			})
			return e.leave(ctx, q)
		}},
		{Name: "a third reader waits", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if line := e.front(r.Name); r.Permits == 1 && r.Limit == engine.Max && len(line) >= 2 && line[1].State == engine.Held {
				r.Permits = engine.Max
			}
			return e.join(ctx, r)
		}},
		{Name: "the sum of permits overflows", reply: func(e *Engine, c engine.Claim) engine.Claim {
			if c.State == engine.Waiting && c.Permits == engine.Max-1 {
				c.State = engine.Held
			}
			return c
		}},
		{Name: "a reused token", alias: func(e *Engine, c engine.Claim) engine.Claim {
			// Who finds the queue empty gets the ticket of the last claim again.
			k := e.w.claims[c.ID]
			if k == nil {
				return c
			}
			if k.shown == 0 {
				p := e.w.pastOf(c.Name)
				if k.shown = k.ticket; p.ticket != 0 && len(e.front(c.Name)) == 1 {
					k.shown = p.ticket
				}
				p.ticket = k.shown
			}
			c.Ticket = k.shown
			return c
		}, line: showTickets, revoke: revokeShown},
		{Name: "tokens start again after a restart", alias: func(e *Engine, c engine.Claim) engine.Claim {
			k := e.w.claims[c.ID]
			if k == nil {
				return c
			}
			if k.shown == 0 {
				p := e.w.pastOf(c.Name)
				p.ticket++
				k.shown = p.ticket
			}
			c.Ticket = k.shown
			return c
		}, line: showTickets, revoke: revokeShown, restart: func(w *World) { clear(w.lines) }},
		{Name: "a second Join of one ID stands behind the first", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if k := e.w.claims[r.ID]; k == nil || k.marked || !e.stands(r.Name, r.ID) {
				return e.join(ctx, r)
			}
			id := r.ID
			r.ID, r.Replaces = engine.NewID(), engine.ID{}
			c, err := e.join(ctx, r)
			c.ID = id
			return c, err
		}},
		{Name: "NoWait leaves a claim", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			c, err := e.join(ctx, r)
			if err == nil && c.State == engine.Gone {
				r.NoWait, r.WaitTTL = false, time.Second // it is no leak
				_, _ = e.join(ctx, r)
			}
			return c, err
		}},
		{Name: "NoWait refuses a free name", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if r.NoWait && len(e.front(r.Name)) == 0 {
				return engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone}, nil
			}
			return e.join(ctx, r)
		}},
		{Name: "Replaces loses the turn", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			// Join first, then leave: the reply is from before the turn came.
			old := r.Replaces
			if old == (engine.ID{}) || !e.stands(r.Name, old) || e.stands(r.Name, r.ID) {
				return e.join(ctx, r)
			}
			r.Replaces = engine.ID{}
			c, err := e.join(ctx, r)
			if err == nil {
				_, err = e.leave(ctx, engine.Claim{Name: r.Name, ID: old})
				delete(e.w.claims, old)
			}
			return c, err
		}},
		{Name: "Replaces keeps the turn of who is contended", join: func(e *Engine, ctx context.Context, r engine.Request) (c engine.Claim, err error) {
			if line := e.front(r.Name); r.Replaces == (engine.ID{}) || len(line) == 0 || line[0].ID != r.Replaces || line[0].Limit != r.Limit {
				return e.join(ctx, r)
			}
			e.aside(r.Name, func() { c, err = e.join(ctx, r) }, asTheyWere)
			return c, err
		}},
		{Name: "a disagreeing limit is taken", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if line := e.front(r.Name); len(line) > 0 && r.Limit > 0 {
				r.Limit = line[0].Limit
				r.Permits = min(r.Permits, r.Limit)
			}
			return e.join(ctx, r)
		}},
	}
}

// showTickets makes inspection agree with the replies.
func showTickets(e *Engine, l *engine.Queue) {
	for i, c := range l.Claims {
		if k := e.w.byTicket(l.Name, c.Ticket); k != nil {
			l.Claims[i].Ticket = k.shown
		}
	}
}

func revokeShown(e *Engine, ctx context.Context, name string, ticket uint64, now bool) error {
	for _, k := range e.w.claims {
		if k.Name == name && k.shown == ticket {
			return e.revoke(ctx, name, k.ticket, now)
		}
	}
	return e.revoke(ctx, name, 0, now)
}
