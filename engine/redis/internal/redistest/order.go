package redistest

import (
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// HeldFirst: one Renew of ten that wait and ten that hold, in turns. What waits is tried
// for after all that holds was renewed, whose answers come first.
func (k Kit) HeldFirst(t *testing.T, r *servers.RedisServer) {
	k.teach(t, r)
	e, other := k.Opened(t, "redis://"+r.Addr), k.Opened(t, "redis://"+r.Addr)
	var rs []engine.Renewal
	waits := map[engine.ID]bool{}
	for i := range 10 {
		busy, own := "busy"+string(rune('a'+i)), "own"+string(rune('a'+i))
		Join(t, other, Exclusive(busy))
		for _, name := range []string{busy, own} {
			q := Exclusive(name)
			c := Join(t, e, q)
			waits[c.ID] = c.State == engine.Waiting
			rs = append(rs, engine.Renewal{Name: name, ID: c.ID, Want: time.Minute})
		}
	}
	before := scripts(t, r)
	cs, err := e.Renew(Within(t), rs)
	if err != nil || len(cs) != len(rs) {
		t.Fatalf("%d answers: %v", len(cs), err)
	}
	for i, c := range cs {
		if waits[c.ID] != (i >= 10) || waits[c.ID] != (c.State == engine.Waiting) {
			t.Errorf("answer %d is of a claim that waited: %v; it is %v", i, waits[c.ID], c.State)
		}
	}
	if n := scripts(t, r) - before; n != int64(len(rs)) {
		t.Errorf("%d scripts for %d claims", n, len(rs))
	}
}

// WaitsAreExtended: a claim that waits, and is renewed, waits beyond what it was born
// with.
func (k Kit) WaitsAreExtended(t *testing.T, r *servers.RedisServer) {
	k.teach(t, r)
	e, other := k.Opened(t, "redis://"+r.Addr), k.Opened(t, "redis://"+r.Addr)
	Join(t, other, Exclusive("a"))
	var c engine.Claim
	Until(t, "this machine is too busy", func() bool { // to renew it in time
		q := Exclusive("a")
		q.WaitTTL = engine.MinTTL
		c = Renew(t, e, Join(t, e, q), time.Minute)
		return c.State == engine.Waiting
	})
	time.Sleep(2 * engine.MinTTL) // its first deadline passes
	if c = Renew(t, e, c, time.Minute); c.State != engine.Waiting {
		t.Errorf("it was renewed for a minute, and is %v", c.State)
	}
}
