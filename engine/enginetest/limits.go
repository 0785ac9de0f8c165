package enginetest

import (
	"errors"
	"strings"
	"time"

	"leasehold/engine"
)

func limits() promise {
	return promise{"limits", "disagreement and absurd requests are refused, with the figures, and change nothing", []kase{
		{"a disagreeing limit is accepted", func(t *trial) {
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
		{"an absurd request is accepted", func(t *trial) {
			a, name := t.client(), t.name()
			id := engine.NewID()
			for what, change := range map[string]func(*engine.Request){
				"no ID":                   func(r *engine.Request) { r.ID = engine.ID{} },
				"no permits":              func(r *engine.Request) { r.Permits = 0 },
				"negative permits":        func(r *engine.Request) { r.Permits = -1 },
				"no limit":                func(r *engine.Request) { r.Limit, r.Permits = 0, 0 },
				"negative limit":          func(r *engine.Request) { r.Limit, r.Permits = -3, -3 },
				"more permits than limit": func(r *engine.Request) { r.Limit = r.Permits - 1 },
				"no TTL":                  func(r *engine.Request) { r.WaitTTL = 0 },
				"negative TTL":            func(r *engine.Request) { r.WaitTTL = -time.Second },
				"a TTL of a nanosecond":   func(r *engine.Request) { r.WaitTTL = 1 },
				"a TTL of a year":         func(r *engine.Request) { r.WaitTTL = 365 * 24 * time.Hour },
				"the longest TTL":         func(r *engine.Request) { r.WaitTTL = 1<<63 - 1 },
				"NoWait and Replaces":     func(r *engine.Request) { r.NoWait, r.Replaces = true, id },
				"replacing itself":        func(r *engine.Request) { r.Replaces = r.ID },
				"an owner without bound":  func(r *engine.Request) { r.Owner.Label = strings.Repeat("x", 2*engine.MaxOwner) },
			} {
				r := t.exclusive(name)
				change(&r)
				if c, err := a.Join(t.ctx(), r); !errors.Is(err, engine.ErrRefused) {
					t.Errorf("Join with %s says %v, %v; want engine.ErrRefused", what, c.State, err)
				}
			}
			if l := a.line(name); len(l.Claims) != 0 {
				t.Fatalf("refused claims are in the queue: %+v", l)
			}
		}},
		{"an absurd renewal is accepted", func(t *trial) {
			a := t.client()
			c := a.hold(t.exclusive(t.name()))
			for _, want := range []time.Duration{0, -time.Second, 1, 365 * 24 * time.Hour} {
				got, err := a.Renew(t.ctx(), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: want}})
				if !errors.Is(err, engine.ErrRefused) {
					t.Errorf("Renew for %v says %v, %v; want engine.ErrRefused", want, got, err)
				}
			}
			a.is(c, engine.Held, "what was refused changes nothing")
		}},
		{"a batch without bound is accepted", func(t *trial) {
			a := t.client()
			c := a.hold(t.exclusive(t.name()))
			rs, cs := make([]engine.Renewal, engine.MaxBatch+1), make([]engine.Claim, engine.MaxBatch+1)
			for i := range rs {
				rs[i], cs[i] = engine.Renewal{Name: c.Name, ID: c.ID, Want: t.long()}, c
			}
			if got, err := a.Renew(t.ctx(), rs); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("Renew of %d claims says %d claims, %v; want engine.ErrRefused", len(rs), len(got), err)
			}
			if got, err := a.Leave(t.ctx(), cs); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("Leave of %d claims says %d claims, %v; want engine.ErrRefused", len(cs), len(got), err)
			}
			a.is(c, engine.Held, "what was refused changes nothing")
		}},
		{"less than the engine's least TTL is refused", func(t *trial) {
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
		{"more than the engine's longest TTL is granted", func(t *trial) {
			a := t.client()
			r := t.exclusive(t.name())
			longest := engine.MaxTTL
			if t.g.MaxTTL > 0 {
				longest = t.g.MaxTTL
			}
			r.WaitTTL = longest + time.Millisecond
			if c, err := a.Join(t.ctx(), r); !errors.Is(err, engine.ErrRefused) {
				t.Fatalf("Join for %v says %v, %v; the longest is %v", r.WaitTTL, c.State, err, longest)
			}
		}},
	}}
}
