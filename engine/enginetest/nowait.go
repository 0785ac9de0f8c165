package enginetest

import "leasehold/engine"

func noWait() promise {
	return promise{"no wait", "a claim with NoWait is held at once, or gone with nothing left behind", []kase{
		{"a free name is granted", func(t *trial) {
			a, name := t.client(), t.name()
			r := t.exclusive(name)
			r.NoWait = true
			c := a.hold(r)
			a.is(c, engine.Held, "nothing ended it")
		}},
		{"a refused claim leaves nothing behind", func(t *trial) {
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			r := t.exclusive(name)
			r.NoWait = true
			refused := b.join(r)
			if refused.State != engine.Gone {
				t.Fatalf("a claim that does not wait is %v behind a holder", refused.State)
			}
			if l := a.line(name); len(l.Claims) != 1 {
				t.Fatalf("the queue has %d claims, want the holder's alone", len(l.Claims))
			}
			b.is(refused, engine.Gone, "it was refused")
			a.leave(first)
			c.hold(t.exclusive(name))
		}},
		{"it does not overtake a waiting claim", func(t *trial) {
			t.needsFIFO()
			t.needsMode(engine.Exclusive | engine.Shared)
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.reader(name))
			writer := b.wait(t.exclusive(name))
			r := t.reader(name)
			r.NoWait = true
			if got := c.join(r); got.State != engine.Gone {
				t.Fatalf("a writer waits, and a reader that does not wait is %v", got.State)
			}
			a.leave(first)
			b.awaits(writer)
		}},
	}}
}
