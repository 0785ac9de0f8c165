package enginetest

import (
	"errors"

	"leasehold/engine"
)

func revocation() promise {
	return promise{"revocation", "a marked holder is gone and keeps its permits until it leaves or its deadline passes; Revoke with now frees them at once", []kase{
		{"a wrong ticket revokes nobody", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			for _, now := range []bool{false, true} {
				for _, ticket := range []uint64{first.Ticket + 1, first.Ticket - 1, 0} {
					if err := b.Revoke(t.ctx(), name, ticket, now); !errors.Is(err, engine.ErrNoClaim) && !t.doesNotRevoke(err) {
						t.Fatalf("Revoke of a ticket nobody has says %v, want engine.ErrNoClaim", err)
					}
				}
			}
			if err := b.Revoke(t.ctx(), t.name(), first.Ticket, true); !errors.Is(err, engine.ErrNoClaim) && !t.doesNotRevoke(err) {
				t.Fatalf("Revoke of a name nobody claims says %v, want engine.ErrNoClaim", err)
			}
			a.is(first, engine.Held, "another ticket was revoked")
		}},
		{"a marked holder is gone and keeps its permits until it leaves or its deadline passes", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			t.revoke(b, first, false)
			if got := a.is(first, engine.Gone, "it was revoked"); !got.Revoked {
				t.Fatal("Renew of a revoked claim does not say that it was revoked")
			}
			b.is(second, engine.Waiting, "the revoked holder has not left")
			if got := a.leave(first); got.State != engine.Gone {
				t.Fatalf("Leave of a revoked claim says %v", got.State)
			}
			b.awaits(second)
		}},
		{"a marked holder is shown", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			t.revoke(b, first, false)
			l := b.line(name)
			if len(l.Claims) != 1 || l.Claims[0].State != engine.Held || !l.Claims[0].Revoked {
				t.Fatalf("a revoked holder that has not left is shown as %+v", l.Claims)
			}
			a.leave(first)
			if l := b.line(name); len(l.Claims) != 0 {
				t.Fatalf("it left, and the queue shows %+v", l.Claims)
			}
		}},
		{"a marked holder is not extended", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			r := t.brief(t.exclusive(name))
			first := a.hold(r)
			second := b.wait(t.exclusive(name))
			t.revoke(b, first, false)
			a.renew(first, t.long())
			r.WaitTTL = t.long()
			if again, err := a.Join(t.ctx(), r); err == nil && again.State != engine.Gone {
				t.Fatalf("a repeated Join of a revoked claim says %v", again.State)
			}
			t.lapse(a, first)
			b.awaits(second)
		}},
		{"now frees the permits at once", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			t.revoke(b, first, true)
			b.awaits(second)
			a.is(first, engine.Gone, "it was revoked")
			if got := a.leave(first); got.State != engine.Gone {
				t.Fatalf("Leave of a revoked claim says %v", got.State)
			}
			b.is(second, engine.Held, "nothing ended it")
		}},
		{"now frees the permits of a marked holder too", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			t.revoke(b, first, false)
			b.is(second, engine.Waiting, "the revoked holder has not left")
			t.revoke(b, first, true)
			b.awaits(second)
			if got := a.leave(first); got.State != engine.Gone {
				t.Fatalf("Leave of a revoked claim says %v", got.State)
			}
			b.is(second, engine.Held, "nothing ended it")
		}},
		{"a waiting claim is removed", func(t *trial) {
			t.needsFIFO()
			for _, now := range []bool{false, true} {
				a, b, c, name := t.client(), t.client(), t.client(), t.name()
				first := a.hold(t.exclusive(name))
				second := b.wait(t.exclusive(name))
				third := c.wait(t.exclusive(name))
				t.revoke(a, second, now)
				b.is(second, engine.Gone, "it was revoked")
				a.leave(first)
				c.awaits(third)
			}
		}},
	}}
}

// revoke revokes a claim, or ends the case where a foreign layout has no way to.
func (t *trial) revoke(by *client, c engine.Claim, now bool) {
	t.Helper()
	if err := by.Revoke(t.ctx(), c.Name, c.Ticket, now); t.doesNotRevoke(err) {
		t.end(Refused, "Revoke: errors.ErrUnsupported")
	} else if err != nil {
		t.Fatalf("Revoke: %v", err)
	}
}

// doesNotRevoke: an engine that keeps another library's layout, which shows in its
// having no order, may have no room for marks.
func (t *trial) doesNotRevoke(err error) bool {
	return t.g.Order == engine.OrderNone && errors.Is(err, errors.ErrUnsupported) && errors.Is(err, engine.ErrRefused)
}
