package enginetest

import "leasehold/engine"

func tokens() promise {
	return promise{"tokens", "tickets rise from holder to holder of a name, over expiry, revocation, new clients, restarts and a server that forgets", []kase{
		{"no ticket comes twice", func(t *trial) {
			s := t.newTickets()
			a, b := t.client(), t.client()
			for i := range 10 {
				who := a
				if i%2 == 1 {
					who = b
				}
				who.leave(s.next(who))
			}
		}},
		{"a claim keeps its ticket", func(t *trial) {
			s := t.newTickets()
			a := t.client()
			c := s.next(a)
			if got := a.is(c, engine.Held, "nothing ended it"); got.Ticket != c.Ticket {
				t.Fatalf("Join said ticket %d, Renew %d", c.Ticket, got.Ticket)
			}
		}},
		{"a waiting claim holds with its ticket", func(t *trial) {
			s := t.newTickets()
			a, b := t.client(), t.client()
			first := s.next(a)
			second := b.wait(t.exclusive(s.name))
			a.leave(first)
			if got := b.awaits(second); got.Ticket <= first.Ticket {
				t.Fatalf("ticket %d holds after %d", got.Ticket, first.Ticket)
			}
		}},
		{"tickets rise over expiry", func(t *trial) {
			s := t.newTickets()
			a, b := t.client(), t.client()
			t.lapse(a, s.take(a, t.brief(t.exclusive(s.name))))
			s.next(b)
		}},
		{"an expired claim that joins once more has a new ticket", func(t *trial) {
			// The core tells by the ticket that a repeated Join made the claim
			// anew, and that what it heard of its former incarnation is void.
			s := t.newTickets()
			a := t.client()
			r := t.brief(t.exclusive(s.name))
			ask := t.lapse(a, s.take(a, r))
			s.take(ask, r)
		}},
		{"tickets rise over revocation", func(t *trial) {
			s := t.newTickets()
			t.needsFIFO()
			a, b := t.client(), t.client()
			c := s.next(a)
			if err := b.Revoke(t.ctx(), s.name, c.Ticket, true); err != nil {
				t.Fatalf("Revoke: %v", err)
			}
			s.next(b)
		}},
		{"tickets rise over a new client", func(t *trial) {
			s := t.newTickets()
			for range 3 {
				a := t.client()
				a.leave(s.next(a))
				if err := a.Close(); err != nil {
					t.Fatalf("Close: %v", err)
				}
			}
		}},
		{"tickets rise over a restart of the server", func(t *trial) {
			s := t.newTickets()
			if t.h.Restart == nil {
				t.notExercised("Restart")
			}
			a, b := t.client(), t.client()
			c := s.next(a)
			t.h.Restart(t.TB)
			a.answer(c)
			a.leave(c)
			a.leave(s.next(a))
			b.answer(engine.Claim{Name: s.name, ID: engine.NewID()})
			b.leave(s.next(b))
		}},
		{"tickets rise though the server forgets", func(t *trial) {
			s := t.newTickets()
			if t.h.Forget == nil {
				t.notExercised("Forget")
			}
			a, b := t.client(), t.client()
			c := s.next(a)
			t.h.Forget(t.TB)
			a.answer(c)
			a.leave(s.next(a))
			b.answer(engine.Claim{Name: s.name, ID: engine.NewID()})
			b.leave(s.next(b))
		}},
	}}
}

// tickets follows the tickets of one name.
type tickets struct {
	t    *trial
	name string
	last uint64
}

func (t *trial) newTickets() *tickets {
	t.Helper()
	if t.g.Fencing == engine.FencingNone {
		t.notDeclared("Fencing is " + t.g.Fencing.String())
	}
	return &tickets{t: t, name: t.name()}
}

// next holds the name once more and checks the ticket.
func (s *tickets) next(a *client) engine.Claim { return s.take(a, s.t.exclusive(s.name)) }

func (s *tickets) take(a *client, r engine.Request) engine.Claim {
	s.t.Helper()
	c := a.join(r)
	if c.State == engine.Waiting { // after a restart the last claim may still stand for a moment
		c = a.awaits(c)
	}
	if c.Ticket <= s.last || c.Ticket > engine.MaxTicket {
		s.t.Fatalf("ticket %d follows %d; the highest possible is %d", c.Ticket, s.last, uint64(engine.MaxTicket))
	}
	s.last = c.Ticket
	return c
}
