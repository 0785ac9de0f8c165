package enginetest

import "leasehold/engine"

func wakeUp() promise {
	return promise{"wake-up", "an engine notifies exactly the claims that become held, whichever call lets them hold; Renew is the fallback", []kase{
		{"Renew says held after a lost notification", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			if t.h.Polls && (second.PollAfter <= 0 || second.PollAfter > t.h.Patience) {
				t.Fatalf("the engine sends no notifications, and PollAfter of a waiting claim is %v", second.PollAfter)
			}
			a.leave(first)
			b.awaits(second)
		}},
		{"Leave of the holder notifies the next", func(t *trial) {
			t.needsNotifications()
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			third := c.wait(t.exclusive(name))
			a.leave(first)
			b.notified(second, engine.Held, "the claim became held")
			c.flush(a)
			if n := c.received(third.ID); len(n) > 0 {
				t.Fatalf("a claim that still waits was told %v", n)
			}
			for _, n := range b.received(second.ID) {
				if n.Ticket != second.Ticket {
					t.Fatalf("the notification has ticket %d, the claim %d", n.Ticket, second.Ticket)
				}
			}
		}},
		{"each of several claims that become held is notified", func(t *trial) {
			t.needsNotifications()
			t.needsFIFO()
			light, heavy := t.weights()
			w, a, b, v, c, name := t.client(), t.client(), t.client(), t.client(), t.client(), t.name()
			writer := w.hold(heavy(name))
			first, second := a.wait(light(name)), b.wait(light(name))
			next, last := v.wait(heavy(name)), c.wait(light(name))
			w.leave(writer)
			a.notified(first, engine.Held, "two claims became held")
			b.notified(second, engine.Held, "two claims became held")
			for who, claim := range map[*client]engine.Claim{v: next, c: last} {
				who.flush(w)
				if n := who.received(claim.ID); len(n) > 0 {
					t.Fatalf("a claim that still waits was told %v", n)
				}
			}
		}},
		{"a claim behind a waiter that leaves becomes held", func(t *trial) {
			t.needsFIFO()
			light, heavy := t.weights()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			a.hold(light(name))
			writer := b.wait(heavy(name))
			late := c.wait(light(name))
			b.leave(writer)
			if !t.h.Polls {
				c.notified(late, engine.Held, "the heavy claim before it left, and there is room beside the holder")
			}
			c.awaits(late)
		}},
		{"Renew that removes an expired holder notifies the next", func(t *trial) {
			t.afterLapse(func(c *client, third engine.Claim) { c.renew(third, t.long()) })
		}},
		{"Join that removes an expired holder notifies the next", func(t *trial) {
			t.afterLapse(func(c *client, third engine.Claim) { c.join(t.exclusive(third.Name)) })
		}},
		{"Leave that removes an expired holder notifies the next", func(t *trial) {
			t.afterLapse(func(c *client, third engine.Claim) { c.leave(third) })
		}},
		{"a claim that Revoke lets hold is notified", func(t *trial) {
			t.needsNotifications()
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			if err := b.Revoke(t.ctx(), name, first.Ticket, true); err != nil {
				t.Fatalf("Revoke: %v", err)
			}
			b.notified(second, engine.Held, "the holder was revoked at once")
		}},
		{"a revoked claim is notified", func(t *trial) {
			t.needsNotifications()
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			if err := a.Revoke(t.ctx(), name, second.Ticket, false); err != nil {
				t.Fatalf("Revoke of a waiting claim: %v", err)
			}
			b.notified(second, engine.Gone, "the waiting claim was revoked")
			if err := b.Revoke(t.ctx(), name, first.Ticket, false); err != nil {
				t.Fatalf("Revoke of a held claim: %v", err)
			}
			a.notified(first, engine.Gone, "the held claim was revoked")
		}},
		{"no call sends its own claim a notification of what the reply says", func(t *trial) {
			t.needsNotifications()
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			a.is(first, engine.Held, "nothing ended it")
			a.leave(first)
			second := a.hold(t.exclusive(name))
			a.flush(b)
			for _, c := range []engine.Claim{first, second} {
				if n := a.received(c.ID); len(n) > 0 {
					t.Fatalf("a claim was told what the reply to its own call said: %v", n)
				}
			}
		}},
		{"Renew that removes no claim notifies no client", func(t *trial) {
			t.needsNotifications()
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			if t.g.SeesWaiters {
				// A notification of another name may overtake this one, where they come from
				// two servers: then it would look like one of Renew's.
				// That it comes at all is another promise.
				a.receives(func(n engine.Claim) bool { return n.ID == first.ID && n.Contended })
			}
			a.flush(b)
			before := len(a.received(first.ID))
			for range 3 {
				b.renew(second, t.long())
				a.renew(first, t.long())
			}
			a.flush(b)
			b.flush(a)
			if n := a.received(first.ID); len(n) > before {
				t.Fatalf("a Renew that removed nobody told the holder %v", n[before:])
			}
			if n := b.received(second.ID); len(n) > 0 {
				t.Fatalf("a Renew that removed nobody told who waits %v", n)
			}
		}},
	}}
}

// afterLapse: the holder's deadline passes and nobody notices, until another
// client's call does, which is then the one that must tell the first waiter.
func (t *trial) afterLapse(call func(c *client, third engine.Claim)) {
	t.needsNotifications()
	t.needsFIFO()
	a, b, c, name := t.client(), t.client(), t.client(), t.name()
	first := a.hold(t.brief(t.exclusive(name)))
	second := b.wait(t.exclusive(name))
	third := c.wait(t.exclusive(name))
	t.lapse(a, first)
	call(c, third)
	b.notified(second, engine.Held, "another client's call removed the expired claim before it")
}

// weights are requests of which two light ones fit together, and none fits
// beside a heavy one: by permits where the engine has them, else by readers and
// writers.
func (t *trial) weights() (light, heavy func(name string) engine.Request) {
	t.Helper()
	if t.g.Modes&engine.Permits != 0 {
		return func(name string) engine.Request { return t.want(name, 1, 3) },
			func(name string) engine.Request { return t.want(name, 3, 3) }
	}
	t.needsMode(engine.Exclusive | engine.Shared)
	return t.reader, t.exclusive
}
