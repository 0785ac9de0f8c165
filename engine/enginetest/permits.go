package enginetest

import "leasehold/engine"

func permits() promise {
	return promise{"permits", "n of N permits at a time, by claims of one permit or more", []kase{
		{"no more than the limit hold", func(t *trial) {
			t.needsPermits()
			name := t.name()
			var clients []*client
			var held []engine.Claim
			for range 3 {
				a := t.client()
				clients = append(clients, a)
				held = append(held, a.hold(t.want(name, 1, 3)))
			}
			d := t.client()
			fourth := d.wait(t.want(name, 1, 3))
			for i, c := range held {
				clients[i].is(c, engine.Held, "there are permits for three")
			}
			d.is(fourth, engine.Waiting, "three of three permits are taken")
			clients[1].leave(held[1])
			d.awaits(fourth)
		}},
		{"heavy claims count with all their permits", func(t *trial) {
			t.needsPermits()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first, second := a.hold(t.want(name, 2, 5)), b.hold(t.want(name, 2, 5))
			third := c.wait(t.want(name, 2, 5))
			c.is(third, engine.Waiting, "four of five permits are taken, and it wants two")
			a.leave(first)
			c.awaits(third)
			b.is(second, engine.Held, "nothing ended it")
		}},
		{"permits near the largest number do not overflow", func(t *trial) {
			t.needsPermits()
			a, b, name := t.client(), t.client(), t.name()
			a.hold(t.want(name, engine.Max-1, engine.Max))
			second := b.wait(t.want(name, engine.Max-1, engine.Max))
			b.is(second, engine.Waiting, "all permits but one are taken")
		}},
	}}
}

func (t *trial) needsPermits() {
	t.Helper()
	if t.g.Modes&engine.Permits == 0 {
		t.mustRefuse(t.want(t.name(), 1, 3), "claims of some permits")
	}
}
