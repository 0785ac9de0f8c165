package enginetest

import (
	"errors"
	"time"

	"leasehold/engine"
)

func limits() promise {
	return promise{"limits", "a claim with another limit is refused, with both limits, and changes nothing", []kase{
		{"a limit that disagrees is refused", func(t *trial) {
			if t.g.Modes&engine.Permits == 0 {
				t.mustRefuse(t.want(t.name(), 1, 3), "claims of some permits")
			}
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.want(name, 1, 3))
			for _, r := range []engine.Request{t.want(name, 1, 4), t.want(name, 1, 2), t.exclusive(name)} {
				for _, noWait := range []bool{false, true} {
					r.ID, r.NoWait = engine.NewID(), noWait
					c, err := b.Join(t.ctx(), r)
					var e *engine.LimitError
					if !errors.Is(err, engine.ErrLimit) || !errors.As(err, &e) || !errors.Is(err, engine.ErrRefused) {
						t.Fatalf("a Join with limit %d of a name with limit 3 says %v, %v; want engine.ErrLimit", r.Limit, c.State, err)
					}
					if e.Name != name || e.Have != 3 || e.Want != r.Limit {
						t.Fatalf("the error for limit %d of a name with limit 3 is %+v", r.Limit, *e)
					}
				}
			}
			if l := b.line(name); len(l.Claims) != 1 || l.Limit != 3 {
				t.Fatalf("refused claims changed the queue: %+v", l)
			}
			a.is(first, engine.Held, "others were refused")
			second := b.hold(t.want(name, 2, 3))
			a.leave(first)
			b.leave(second)
			b.hold(t.want(name, 1, 4)) // nobody is left to disagree with
		}},
		{"a WaitTTL below the engine's least is granted", func(t *trial) {
			a := t.client()
			r := t.exclusive(t.name())
			r.WaitTTL = engine.MinTTL
			// On a busy machine to ask may take longer than that: then nothing is learned.
			c, err := a.Join(t.ctx(), r)
			for late := time.Now().Add(t.h.Patience); err != nil && !errors.Is(err, engine.ErrRefused) && time.Now().Before(late); {
				r.ID = engine.NewID()
				c, err = a.Join(t.ctx(), r)
			}
			if err != nil {
				t.Fatalf("Join for %v: %v", r.WaitTTL, err)
			}
			if least := max(t.g.MinTTL, engine.MinTTL); c.TTL < least {
				t.Fatalf("asked for %v Join granted %v, the engine's least is %v", r.WaitTTL, c.TTL, least)
			}
		}},
	}}
}
