package enginetest

import "leasehold/engine"

func oneWay() promise {
	return promise{"expiry is one-way", "a claim past its deadline is gone for good, even if the engine still stores it", []kase{
		{"Renew does not revive a claim that nobody took over", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.brief(t.exclusive(name)))
			ask := t.lapse(a, c)
			ask.is(c, engine.Gone, "its deadline has passed")
			ask.is(c, engine.Gone, "it was gone before")
			ask.free(name, "the only claim expired")
		}},
		{"Renew does not revive a claim that was passed over", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			ask := t.lapse(a, first)
			b.awaits(second)
			ask.is(first, engine.Gone, "another claim holds in its place")
			b.is(second, engine.Held, "nothing ended it")
		}},
		{"Renew does not revive a waiting claim", func(t *trial) {
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			a.hold(t.exclusive(name))
			second := b.wait(t.brief(t.exclusive(name)))
			ask := t.lapse(b, second)
			ask.is(second, engine.Gone, "its deadline has passed")
			ask.is(second, engine.Gone, "it was gone before")
		}},
	}}
}
