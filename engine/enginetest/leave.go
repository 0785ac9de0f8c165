package enginetest

import "leasehold/engine"

func leave() promise {
	return promise{"leave", "Leave says in which state it found the claim", []kase{
		{"a held claim is not found held", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.exclusive(name))
			t.left(a, c, engine.Held, "it was held")
			t.left(a, c, engine.Gone, "it was left before")
		}},
		{"a waiting claim is not found waiting", func(t *trial) {
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			t.left(b, second, engine.Waiting, "it waited")
			t.left(a, first, engine.Held, "it was held")
		}},
		{"an expired claim is found held", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.brief(t.exclusive(name)))
			t.left(t.lapse(a, c), c, engine.Gone, "its deadline had passed")
		}},
		{"a claim that was never there is found", func(t *trial) {
			a, name := t.client(), t.name()
			t.left(a, engine.Claim{Name: name, ID: engine.NewID()}, engine.Gone, "it was never there")
		}},
		{"a claim that became held unseen is found waiting", func(t *trial) {
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			a.leave(first)
			t.left(b, second, engine.Held, "the claim before it was left")
		}},
	}}
}

func (t *trial) left(a *client, c engine.Claim, want engine.State, why string) {
	t.Helper()
	if got := a.leave(c); got.State != want {
		t.Fatalf("%s, and Leave says %v", why, got.State)
	}
}
