package enginetest

import (
	"time"

	"leasehold/engine"
)

func expiry() promise {
	return promise{"expiry", "a claim that nobody renews ends at its deadline, not before", []kase{
		{"a held claim ends with its TTL", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			t.lapse(a, first)
			b.awaits(second)
		}},
		{"a held claim does not end before its TTL", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			start := t.h.Now()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			for _, part := range []time.Duration{2, 4, 16} { // half, three quarters, 15/16 of it
				t.h.Sleep(start + first.TTL - first.TTL/part - t.h.Now())
				if got, err := b.pollAfter(t.ctx(), second); err != nil || got.State != engine.Waiting {
					t.Fatalf("1/%d of the TTL %v before the deadline who waits is %v, %v", part, first.TTL, got.State, err)
				}
			}
		}},
		{"a waiting claim ends with its TTL", func(t *trial) {
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.brief(t.exclusive(name)))
			third := c.wait(t.exclusive(name))
			t.lapse(b, second)
			a.leave(first)
			c.awaits(third)
		}},
		{"becoming held does not extend a claim", func(t *trial) {
			t.needsFIFO()
			if t.g.CrashRelease == engine.CrashSession {
				t.notDeclared("claims live as long as their session")
			}
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.brief(t.exclusive(name)))
			third := c.wait(t.exclusive(name))
			a.leave(first) // from here on the second holds, and does not know
			t.lapse(b, second)
			if got := c.renew(third, t.long()); got.State != engine.Held {
				t.Fatalf("the claim before it became held and was never renewed; at its first deadline Renew of the next says %v", got.State)
			}
		}},
		{"a renewed claim goes on", func(t *trial) {
			a := t.client()
			c := a.hold(t.brief(t.exclusive(t.name())))
			for range 9 {
				t.h.Sleep(c.TTL / 3)
				if got := a.renew(c, t.short()); got.State != engine.Held {
					t.Fatalf("renewed every third of its TTL, a claim is %v", got.State)
				}
			}
		}},
		{"the first waiter learns when to poll", func(t *trial) {
			t.needsFIFO()
			if t.g.CrashRelease == engine.CrashSession && !t.h.Polls {
				t.notDeclared("the server announces the end of a session")
			}
			a, b, name := t.client(), t.client(), t.name()
			start := t.h.Now()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			most := t.h.Now() - start + first.TTL
			if second.PollAfter <= 0 || second.PollAfter > most {
				t.Fatalf("PollAfter of the first waiter is %v, the claim before it ends within %v", second.PollAfter, most)
			}
		}},
	}}
}
