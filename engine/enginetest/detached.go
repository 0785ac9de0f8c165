package enginetest

import (
	"time"

	"leasehold/engine"
)

func detached() promise {
	return promise{"detached", "a detached claim outlives its client and ends by its TTL alone", []kase{
		{"it outlives Close", func(t *trial) {
			a, b := t.client(), t.client()
			c := t.detach(a, t.long())
			if err := a.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			b.taken(c.Name, "its client was closed, but the claim is detached")
			b.is(c, engine.Held, "who has the ID may renew a detached claim")
			if got := b.leave(c); got.State != engine.Held {
				t.Fatalf("who has the ID may leave a detached claim; it was found %v", got.State)
			}
			b.free(c.Name, "the detached claim was left")
		}},
		{"it outlives its process", func(t *trial) {
			a, b := t.client(), t.client()
			c := t.detach(a, t.long())
			t.kill(a)
			b.taken(c.Name, "its client died, but the claim is detached")
			b.leave(c)
		}},
		{"it ends with its TTL", func(t *trial) {
			a, b := t.client(), t.client()
			c := t.detach(a, t.short())
			if err := a.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			second := b.join(t.exclusive(c.Name))
			delete(t.mortal, c.ID)
			t.h.Sleep(2 * c.TTL)
			b.awaits(second)
		}},
		{"a repeated Join of another client finds it", func(t *trial) {
			a, b := t.client(), t.client()
			c := t.detach(a, t.long())
			again := b.join(t.again(c))
			if again.State != engine.Held || again.Ticket != c.Ticket {
				t.Fatalf("Join said held, ticket %d; repeated by another client it says %v, ticket %d", c.Ticket, again.State, again.Ticket)
			}
			if l := b.line(c.Name); len(l.Claims) != 1 {
				t.Fatalf("one claim joined by two clients, the queue has %d", len(l.Claims))
			}
			b.leave(c)
			a.free(c.Name, "the only claim left")
		}},
		{"a Join of another client replaces it", func(t *trial) {
			a, b := t.client(), t.client()
			old := t.detach(a, t.long())
			r := t.replacing(old)
			r.Detached = true
			c := b.awaits(b.join(r))
			a.is(old, engine.Gone, "it was replaced")
			b.is(c, engine.Held, "nothing ended it")
			b.leave(c)
			a.free(c.Name, "everybody left")
		}},
	}}
}

// detach holds a fresh name with a detached claim, or ends the case where the
// engine refuses to, as it then must.
func (t *trial) detach(a *client, ttl time.Duration) engine.Claim {
	t.Helper()
	r := t.exclusive(t.name())
	r.Detached, r.WaitTTL = true, ttl
	if !t.g.Detach {
		t.mustRefuse(r, "detached claims")
	}
	return a.hold(r)
}
