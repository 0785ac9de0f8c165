package enginetest

import "leasehold/engine"

func contention() promise {
	return promise{"contention", "a holder learns, once, that somebody waits", []kase{
		{"a reply says that somebody waits", func(t *trial) {
			t.needsWaiters()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			if first.Contended || a.is(first, engine.Held, "alone").Contended {
				t.Fatal("alone in the queue, a claim is said to be contended")
			}
			second := b.wait(t.exclusive(name))
			if !a.is(first, engine.Held, "another waits").Contended {
				t.Fatal("somebody waits, and Renew of the holder does not say so")
			}
			b.leave(second)
			if a.is(first, engine.Held, "alone again").Contended {
				t.Fatal("nobody waits any more, and Renew of the holder says somebody does")
			}
			if t.g.Order != engine.FIFO {
				return
			}
			second = b.wait(t.exclusive(name))
			third := c.wait(t.exclusive(name))
			a.leave(first)
			if !b.awaits(second).Contended {
				t.Fatal("a claim became held while another waits behind it, and Renew does not say so")
			}
			c.leave(third)
		}},
		{"the holder is notified of a claim that joins behind it", func(t *trial) {
			t.needsWaiters()
			t.needsNotifications()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			b.wait(t.exclusive(name))
			a.notifiedContended(first, "another claim joined behind")
			c.wait(t.exclusive(name))
			a.flush(b)
			if n := a.contendedNotifications(first); n > 1 {
				t.Fatalf("the holder was told %d times that it is contended", n)
			}
		}},
		{"each of several holders is notified", func(t *trial) {
			t.needsWaiters()
			t.needsNotifications()
			t.needsMode(engine.Exclusive | engine.Shared)
			a, b, w, name := t.client(), t.client(), t.client(), t.name()
			first, second := a.hold(t.reader(name)), b.hold(t.reader(name))
			w.wait(t.exclusive(name))
			a.notifiedContended(first, "a writer joined behind two readers")
			b.notifiedContended(second, "a writer joined behind two readers")
		}},
		{"a refused claim notifies a holder once between two renewals", func(t *trial) {
			t.needsWaiters()
			t.needsNotifications()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			for round := 1; round <= 2; round++ {
				for range 3 {
					b.try(t.exclusive(name))
				}
				a.notifiedContended(first, "a claim that does not wait was refused")
				a.flush(b)
				if n := a.contendedNotifications(first); n > round {
					t.Fatalf("%d claims were refused, with %d Renews of the holder between them, and it was told %d times", 3*round, round-1, n)
				}
				a.is(first, engine.Held, "nothing ended it")
			}
		}},
	}}
}

func (a *client) contendedNotifications(c engine.Claim) (n int) {
	for _, notification := range a.received(c.ID) {
		if notification.Contended {
			n++
		}
	}
	return n
}
