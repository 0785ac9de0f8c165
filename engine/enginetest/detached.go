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
