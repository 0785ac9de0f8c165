package enginetest

import (
	"errors"

	"leasehold/engine"
)

func idempotence() promise {
	return promise{"idempotence", "a repeated Join finds the place that its ID already has", []kase{
		{"a repeated Join finds its own claim", func(t *trial) {
			a, name := t.client(), t.name()
			r := t.exclusive(name)
			first := a.hold(r)
			again := a.join(r)
			if again.State != engine.Held || again.Ticket != first.Ticket {
				t.Fatalf("Join said held, ticket %d; repeated it says %v, ticket %d", first.Ticket, again.State, again.Ticket)
			}
			if l := a.line(name); len(l.Claims) != 1 {
				t.Fatalf("one claim joined twice, the queue has %d", len(l.Claims))
			}
			a.leave(first)
			a.free(name, "the only claim left")
		}},
		{"a repeated Join keeps its place", func(t *trial) {
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			r := t.exclusive(name)
			second := b.wait(r)
			third := c.wait(t.exclusive(name))
			if again := b.wait(r); again.Ticket != second.Ticket {
				t.Fatalf("Join said ticket %d, repeated it says %d", second.Ticket, again.Ticket)
			}
			a.leave(first)
			b.awaits(second)
			c.is(third, engine.Waiting, "the claim before it holds")
			if again := b.join(r); again.State != engine.Held {
				t.Fatalf("Join of a claim that became held says %v", again.State)
			}
		}},
		{"a repeated Join extends", func(t *trial) {
			a, name := t.client(), t.name()
			r := t.exclusive(name)
			brief := t.brief(r)
			brief.TTL = r.WaitTTL // where claims live by sessions, it begins with one that lasts
			c := a.hold(brief)
			a.join(r)
			delete(t.mortal, c.ID)
			t.h.Sleep(2 * t.short())
			a.is(c, engine.Held, "it joined for short, then for long")
		}},
		{"a Join whose answer was lost finds its own claim", func(t *trial) {
			if t.h.LoseReply == nil {
				t.notExercised("LoseReply")
			}
			a, b, name := t.client(), t.client(), t.name()
			r := t.exclusive(name)
			lost := t.h.LoseReply(t.TB, a.Unwrap())
			if _, err := a.Join(t.ctx(), r); errors.Is(err, engine.ErrRefused) {
				t.Fatalf("a lost answer is final: %v", err)
			}
			if !lost() {
				t.Fatalf("void: no answer was lost")
			}
			c := a.hold(r)
			b.taken(name, "the claim is held")
			a.leave(c)
			b.free(name, "the only claim left")
		}},
		{"a Leave whose answer was lost leaves nothing", func(t *trial) {
			if t.h.LoseReply == nil {
				t.notExercised("LoseReply")
			}
			a, b, name := t.client(), t.client(), t.name()
			c := a.hold(t.exclusive(name))
			lost := t.h.LoseReply(t.TB, a.Unwrap())
			_, _ = a.Leave(t.ctx(), []engine.Claim{c})
			if !lost() {
				t.Fatalf("void: no answer was lost")
			}
			if got := a.leave(c); got.State != engine.Gone {
				t.Fatalf("left once more, the claim was found %v", got.State)
			}
			b.free(name, "the only claim left")
		}},
		{"a repeated Join that replaces keeps the new claim", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			old := a.hold(t.exclusive(name))
			r := t.exclusive(name)
			r.Replaces = old.ID
			c := a.join(r)
			if again := a.join(r); again.Ticket != c.Ticket {
				t.Fatalf("Join said ticket %d, repeated it says %d", c.Ticket, again.Ticket)
			}
			a.awaits(c)
			b.taken(name, "the claim is held")
		}},
		{"a repeated Join that replaces ends no claim that joined since", func(t *trial) {
			a, name := t.client(), t.name()
			first := t.exclusive(name)
			r := t.replacing(a.hold(first))
			c := a.awaits(a.join(r))
			again := a.wait(first) // a later claim with the ID of the first
			a.join(r)
			a.wait(t.exclusive(name)) // and one that is made like it
			a.leave(c)
			a.awaits(again)
		}},
	}}
}
