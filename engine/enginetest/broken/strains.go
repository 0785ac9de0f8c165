package broken

import (
	"context"

	"leasehold/engine"
)

// strains are faults that show where much happens at once, or something hostile.
func strains() []Fault {
	return []Fault{
		{Name: "a Renew under way takes what its claim has left", late: true},
		{Name: "the hundredth Leave of a name is lost", leave: func(e *Engine, ctx context.Context, q engine.Claim) (engine.Claim, error) {
			if line := e.front(q.Name); len(line) > 0 && len(line) <= 10 && line[0].ID == q.ID {
				p := e.w.pastOf(q.Name)
				if p.leaves++; p.leaves >= 100 {
					line[0].Owner = engine.Owner{}
					return line[0], nil
				}
			}
			return e.leave(ctx, q)
		}},
		{Name: "a refused connection is the answer", dials: true},
		{Name: "a crowd is turned away", join: func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error) {
			if len(e.front(r.Name)) > 40 {
				return engine.Claim{}, errBusy
			}
			return e.join(ctx, r)
		}},
		{Name: "deep in a crowd the order is lost", leave: func(e *Engine, ctx context.Context, q engine.Claim) (engine.Claim, error) {
			if len(e.front(q.Name)) == 31 {
				e.aside(q.Name, func() {}, func(ks []*claim) []*claim { return append(ks[1:], ks[0]) })
			}
			return e.leave(ctx, q)
		}},
		{Name: "each call reads all who wait", cost: func(e *Engine, name string) int { return len(e.front(name)) }},
		{Name: "junk panics", junk: func(*Engine, context.Context, string) error {
			panic("runtime error: index out of range")
		}},
		{Name: "junk sends a call round in cycles", junk: func(_ *Engine, ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}},
		{Name: "junk under one name takes the others with it", junk: func(e *Engine, _ context.Context, _ string) error {
			e.w.busy = true
			return errJunk
		}},
	}
}
