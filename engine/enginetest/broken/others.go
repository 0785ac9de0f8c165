package broken

import (
	"context"
	"strings"

	"leasehold/engine"
)

// others are faults of names, inspection, batches and what is left behind.
func others() []Fault {
	return []Fault{
		{Name: "a secret in Queue", line: func(e *Engine, l *engine.Queue) {
			for i, c := range l.Claims {
				if k := e.w.byTicket(l.Name, c.Ticket); k != nil && c.State == engine.Waiting {
					l.Claims[i].Owner.Label = k.ID.Secret()
				}
			}
		}},
		folded("names collide by case", strings.ToLower),
		folded("a name is what is kept beside another", func(name string) string { return strings.TrimSuffix(name, "{B}") }),
		{Name: "the oldest of many names is forgotten", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if e.w.store.Len() > 250 {
				var oldest *claim
				for _, k := range e.w.claims {
					if oldest == nil || k.ticket < oldest.ticket {
						oldest = k
					}
				}
				if oldest != nil {
					_, _ = oldest.by.leave(ctx, engine.Claim{Name: oldest.Name, ID: oldest.ID})
					delete(e.w.claims, oldest.ID)
				}
			}
			return e.join(ctx, r)
		}},
		{Name: "what a batch could not ask is called gone", guesses: true},
		{Name: "no name is ever forgotten", hoards: true},
		{Name: "every Join leaves a goroutine", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			go func() { <-e.w.end }()
			return e.join(ctx, r)
		}},
	}
}

// folded takes names for one that fold to the same.
func folded(fault string, fold func(string) string) Fault {
	return Fault{Name: fault, fold: fold,
		join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			name := r.Name
			r.Name = fold(name)
			c, err := e.join(ctx, r)
			c.Name = name
			return c, err
		}, renew: func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error) {
			name := r.Name
			r.Name = fold(name)
			c, err := e.renew(ctx, r)
			c.Name = name
			return c, err
		}, leave: func(e *Engine, ctx context.Context, c engine.Claim) (engine.Claim, error) {
			name := c.Name
			c.Name = fold(name)
			c, err := e.leave(ctx, c)
			c.Name = name
			return c, err
		}}
}
