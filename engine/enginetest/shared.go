package enginetest

import "leasehold/engine"

func shared() promise {
	return promise{"shared", "readers hold together, a writer holds alone", []kase{
		{"readers hold together", func(t *trial) {
			t.needsShared()
			name := t.name()
			var clients []*client
			var readers []engine.Claim
			for range 4 {
				a := t.client()
				clients = append(clients, a)
				readers = append(readers, a.hold(t.reader(name)))
			}
			for i, c := range readers {
				clients[i].is(c, engine.Held, "readers hold together")
			}
		}},
		{"a writer waits for a reader", func(t *trial) {
			t.needsShared()
			t.needsMode(engine.Exclusive)
			a, b, w, name := t.client(), t.client(), t.client(), t.name()
			first, second := a.hold(t.reader(name)), b.hold(t.reader(name))
			writer := w.wait(t.exclusive(name))
			a.leave(first)
			w.is(writer, engine.Waiting, "a reader is left")
			b.leave(second)
			w.awaits(writer)
		}},
		{"a reader waits for a writer", func(t *trial) {
			t.needsShared()
			t.needsMode(engine.Exclusive)
			w, name := t.client(), t.name()
			writer := w.hold(t.exclusive(name))
			var clients []*client
			var readers []engine.Claim
			for range 4 {
				a := t.client()
				clients = append(clients, a)
				readers = append(readers, a.wait(t.reader(name)))
			}
			for i, c := range readers {
				clients[i].is(c, engine.Waiting, "a writer holds")
			}
			w.leave(writer)
			for i, c := range readers {
				clients[i].awaits(c)
			}
			w.taken(name, "four readers hold")
		}},
	}}
}

func (t *trial) needsShared() {
	t.Helper()
	if t.g.Modes&engine.Shared == 0 {
		t.mustRefuse(t.reader(t.name()), "shared claims")
	}
}
