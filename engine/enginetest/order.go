package enginetest

import "leasehold/engine"

func order() promise {
	return promise{"order", "clients are served in order of arrival", []kase{
		{"an earlier claim is served first", func(t *trial) {
			t.needsFIFO()
			name := t.name()
			var clients []*client
			var line []engine.Claim
			for range 5 {
				a := t.client()
				clients = append(clients, a)
				line = append(line, a.join(t.exclusive(name)))
			}
			for i := range line {
				clients[i].awaits(line[i])
				// Backwards, so that a claim that is wrongly served by being
				// the first to ask shows up.
				for j := len(line) - 1; j > i; j-- {
					clients[j].is(line[j], engine.Waiting, "an earlier claim holds")
				}
				clients[i].leave(line[i])
			}
		}},
		{"a reader does not overtake a waiting writer", func(t *trial) {
			t.needsFIFO()
			t.needsMode(engine.Exclusive | engine.Shared)
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.reader(name))
			writer := b.wait(t.exclusive(name))
			late := c.wait(t.reader(name))
			c.is(late, engine.Waiting, "a writer waits before it")
			a.leave(first)
			b.awaits(writer)
			c.is(late, engine.Waiting, "the writer before it holds")
			b.leave(writer)
			c.awaits(late)
		}},
		{"the queue is in the order of arrival", func(t *trial) {
			t.needsFIFO()
			t.needsWaiters()
			a, b, name := t.client(), t.client(), t.name()
			var want []uint64
			for i := range 6 {
				who := a
				if i%2 == 1 {
					who = b
				}
				want = append(want, who.join(t.exclusive(name)).Ticket)
			}
			got := b.line(name).Claims
			if len(got) != len(want) {
				t.Fatalf("%d claims are in the queue, want %d", len(got), len(want))
			}
			for i, c := range got {
				if c.Ticket != want[i] {
					t.Fatalf("place %d has ticket %d, want %d: %v", i, c.Ticket, want[i], got)
				}
				if i > 0 && c.Ticket <= got[i-1].Ticket {
					t.Fatalf("ticket %d stands behind %d", c.Ticket, got[i-1].Ticket)
				}
			}
		}},
	}}
}
