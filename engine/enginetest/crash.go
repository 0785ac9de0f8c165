package enginetest

import "leasehold/engine"

func crash() promise {
	return promise{"crash", "a dead client's claims are free when CrashRelease says, and no earlier than exclusion allows", []kase{
		{"a closed client's claims are free", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			if err := a.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			delete(t.mortal, first.ID)
			if t.g.CrashRelease != engine.CrashAtOnce {
				t.h.Sleep(2 * first.TTL) // given up if possible, else expired
			}
			b.awaits(second)
		}},
		{"a dead client's held claim becomes free", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := t.mortalClaim(a, t.exclusive(name))
			second := b.wait(t.exclusive(name))
			t.die(a, first)
			b.awaits(second)
		}},
		{"a dead client's place in the queue becomes free", func(t *trial) {
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := b.hold(t.exclusive(name))
			dead := t.mortalClaim(a, t.exclusive(name))
			third := c.wait(t.exclusive(name))
			t.die(a, dead)
			b.leave(first)
			c.awaits(third)
		}},
		{"after a restart of the server a name can be held", func(t *trial) {
			if t.h.Restart == nil {
				t.notExercised("Restart")
			}
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			t.h.Restart(t.TB)
			got := a.answer(first)
			b.answer(engine.Claim{Name: name, ID: engine.NewID()})
			switch got.State {
			case engine.Held:
				b.taken(name, "the claim outlived the server")
				a.leave(first)
			case engine.Gone: // forgotten, as Fencing and Failover may say
			default:
				t.Fatalf("the server started again, and a held claim is %v", got.State)
			}
			// Notifications must come again as well.
			first = a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			a.leave(first)
			b.awaits(second)
		}},
	}}
}

// mortalClaim joins for a short time, unless the death of its client must end
// the claim at once: then for long, so that its TTL cannot be what ends it.
func (t *trial) mortalClaim(a *client, r engine.Request) engine.Claim {
	t.Helper()
	if t.h.Kill == nil {
		t.notExercised("Kill")
	}
	if t.g.CrashRelease != engine.CrashAtOnce {
		r = t.brief(r)
	}
	return a.join(r)
}

// die kills the client and lets pass what the engine is allowed.
func (t *trial) die(a *client, c engine.Claim) {
	t.Helper()
	switch t.g.CrashRelease {
	case engine.CrashAtOnce:
		t.kill(a)
	case engine.CrashTTL:
		t.kill(a)
		t.lapse(a, c)
	case engine.CrashSession:
		t.lapse(a, c)
	}
}
