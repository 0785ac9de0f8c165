package broken

import (
	"context"

	"leasehold/engine"
)

// notices are faults of who is told what.
func notices() []Fault {
	return []Fault{
		{Name: "a wake-up is lost and there is no fallback", leave: func(e *Engine, ctx context.Context, q engine.Claim) (engine.Claim, error) {
			// A waiting claim leaves, which lets those behind it hold: nobody
			// sees it, and their Renew goes by what was written down.
			before := map[engine.ID]engine.State{}
			for _, c := range e.front(q.Name) {
				before[c.ID] = c.State
			}
			got, err := e.leave(ctx, q)
			for _, c := range e.front(q.Name) {
				k := e.w.claims[c.ID]
				if k == nil || c.State != engine.Held {
					continue
				}
				k.stuck = got.State == engine.Waiting && before[c.ID] == engine.Waiting
			}
			return got, err
		}, reply: func(e *Engine, c engine.Claim) engine.Claim {
			if k := e.w.claims[c.ID]; k != nil && k.stuck && c.State == engine.Held {
				c.State = engine.Waiting
			}
			return c
		}, notification: func(e *Engine, c engine.Claim) (engine.Claim, bool) {
			k := e.w.claims[c.ID]
			return c, k == nil || !k.stuck
		}},
		{Name: "nobody is ever told", notification: func(_ *Engine, c engine.Claim) (engine.Claim, bool) { return c, false }},
		{Name: "who becomes held is not told", notification: func(e *Engine, c engine.Claim) (engine.Claim, bool) {
			k := e.w.claims[c.ID]
			return c, c.State != engine.Held || k != nil && k.held
		}},
		{Name: "everybody is told of everything", notification: func(e *Engine, c engine.Claim) (engine.Claim, bool) {
			// A herd: whoever waits is woken, to look for himself.
			if k := e.w.claims[c.ID]; c.State != engine.Held || k == nil || k.held {
				return c, true
			}
			for _, x := range e.front(c.Name) {
				if k := e.w.claims[x.ID]; k != nil && k.by.changed != nil && x.State == engine.Waiting {
					k.by.changed(x)
				}
			}
			return c, true
		}},
		{Name: "contended and never told", reply: func(_ *Engine, c engine.Claim) engine.Claim {
			c.Contended = false
			return c
		}, notification: func(e *Engine, c engine.Claim) (engine.Claim, bool) {
			if k := e.w.claims[c.ID]; k != nil && k.held && c.State == engine.Held {
				return c, false
			}
			c.Contended = false
			return c, true
		}},
		{Name: "a call tells its own claim", reply: func(e *Engine, c engine.Claim) engine.Claim {
			if c.State == engine.Held && e.changed != nil {
				e.changed(c)
			}
			return c
		}},
		{Name: "Watch ignores its context", deaf: true},
	}
}
