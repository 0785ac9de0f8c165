package enginetest

import (
	"fmt"
	"testing"

	"leasehold/engine"
	"leasehold/internal/checked"
)

// Bench measures what a lock costs on this engine, without the core above it. It joins and
// leaves a free name, hands a name over from one client to another until the second one
// knows, and renews a thousand claims in one batch. Absolute times mean little on a shared
// machine; compare runs side by side.
func Bench(b *testing.B, h Harness) {
	g := guaranteesOf(b, h)
	h = h.withDefaults(g)
	trialOf := func(b *testing.B) *trial {
		return &trial{TB: b, h: h, g: g, bench: true}
	}
	b.Run("uncontended", func(b *testing.B) {
		t := trialOf(b)
		a, name := checked.New(h.New(b)), t.name()
		defer a.Close()
		b.ReportAllocs()
		for b.Loop() {
			c, err := a.Join(b.Context(), t.exclusive(name))
			if err != nil || c.State != engine.Held {
				b.Fatalf("Join: %v, %v", c.State, err)
			}
			if _, err := a.Leave(b.Context(), []engine.Claim{c}); err != nil {
				b.Fatalf("Leave: %v", err)
			}
		}
	})
	b.Run("hand-over", func(b *testing.B) {
		t := trialOf(b)
		if g.Order != engine.FIFO {
			b.Skip("Order is none: who is next depends on who tries")
		}
		a, c, name := t.client(), t.client(), t.name()
		held := a.hold(t.exclusive(name))
		for b.Loop() {
			next := c.wait(t.exclusive(name))
			a.leave(held)
			if h.Polls {
				c.awaits(next)
			} else {
				c.notified(next, engine.Held, "the claim became held")
			}
			c.drop()
			a, c, held = c, a, next
		}
	})
	b.Run("renew-1000", func(b *testing.B) {
		t := trialOf(b)
		a, prefix := checked.New(h.New(b)), t.name()
		defer a.Close()
		var rs []engine.Renewal
		for i := range 1000 {
			c, err := a.Join(b.Context(), t.exclusive(fmt.Sprint(prefix, "/", i)))
			if err != nil {
				b.Fatalf("Join: %v", err)
			}
			rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: t.long()})
		}
		for b.Loop() {
			if got, err := a.Renew(b.Context(), rs); err != nil || len(got) != len(rs) {
				b.Fatalf("Renew of %d claims answered %d, %v", len(rs), len(got), err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rs)), "ns/claim")
	})
}

// drop forgets what was heard.
func (a *client) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notifications = a.notifications[:0]
}
