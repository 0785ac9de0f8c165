package enginetest

import (
	"time"

	"leasehold/engine"
)

func loss() promise {
	return promise{"loss", "losing a claim is no error, and its former holder cannot end another claim", []kase{
		{"a late Leave does not end the claim of the next holder", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			ask := t.lapse(a, first)
			b.awaits(second)
			if got := ask.leave(first); got.State != engine.Gone {
				t.Fatalf("Leave of a claim that was lost says %v", got.State)
			}
			b.is(second, engine.Held, "the Leave was of another claim")
			t.client().taken(name, "the second claim is held")
		}},
		{"Leave with an unknown ID ends nothing", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			b.leave(engine.Claim{Name: name, ID: engine.NewID()})
			a.leave(engine.Claim{Name: name, ID: engine.NewID()})
			a.is(first, engine.Held, "the Leave was of another claim")
		}},
		{"Leave by the public ticket ends nothing", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			public := first
			public.ID = engine.NewID()
			b.leave(public)
			a.is(first, engine.Held, "tickets authorise nothing")
		}},
		{"Renew of a claim that was never there says gone", func(t *trial) {
			a, name := t.client(), t.name()
			a.is(engine.Claim{Name: name, ID: engine.NewID()}, engine.Gone, "it was never there")
			c := a.hold(t.exclusive(name))
			a.is(engine.Claim{Name: name, ID: engine.NewID()}, engine.Gone, "it was never there")
			a.is(c, engine.Held, "nothing ended it")
		}},
		{"after the server forgot, a claim is gone", func(t *trial) {
			if t.h.Forget == nil {
				t.notExercised("Forget")
			}
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			t.h.Forget(t.TB)
			got := a.answer(first)
			if got.State != engine.Gone {
				t.Fatalf("the server forgot a claim, and Renew says %v", got.State)
			}
			second := b.hold(t.exclusive(name))
			if got := a.leave(first); got.State != engine.Gone {
				t.Fatalf("the server forgot a claim, and Leave says %v", got.State)
			}
			b.is(second, engine.Held, "nothing ended it")
		}},
	}}
}

// answer renews until there is an answer: the engine may have to connect again.
func (a *client) answer(c engine.Claim) engine.Claim {
	a.t.Helper()
	late := time.Now().Add(a.t.h.Patience)
	for {
		got, err := a.Renew(a.t.ctx(), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: a.t.long()}})
		if err == nil && len(got) == 1 {
			return got[0]
		}
		if time.Now().After(late) {
			a.t.Fatalf("Renew does not come back: %v, %v", got, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
