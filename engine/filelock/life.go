package filelock

import (
	"errors"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// Asking whether a client is alive costs a system call per client, so that it is asked only where the
// answer matters:
//
//   - of every client that a change is about to tell something: who becomes
//     held must be alive, and who is told that it is contended must be;
//   - of those ahead of a claim that has to wait: holders by the first waiter,
//     the next ahead by the others, more of them by renewals;
//   - of everybody, before a request is refused because of them.
//
// Whoever waits also keeps a connection to those clients (watchFor), whose end
// means look. So every claim of a dead client is noticed by the next live one
// behind it.

const (
	probeFew  = 16   // clients asked for one claim that waits
	probeMany = 1024 // clients asked before refusing or after a death
)

// probe returns clients with claims in the line that are found dead, where
// that could change what out says.
func (e *Engine) probe(s *state, out *outcome, ch *change, known map[string]bool) (dead []string) {
	places := s.line.Places
	refused := errors.Is(out.err, engine.ErrLimit) || ch.owner != nil && ch.owner.NoWait && !anyState(out.claims, engine.Held)
	if len(out.notes) == 0 && !refused && !ch.look && !ch.renew && !anyState(out.claims, engine.Waiting) {
		return nil
	}
	asked := make(map[string]bool)
	ask := func(client string) {
		if client == e.client || asked[client] || known[client] {
			return
		}
		asked[client] = true
		if e.isDead(client) {
			dead = append(dead, client)
		}
	}
	for i := range out.notes {
		ask(out.notes[i].Client)
	}
	if refused || ch.look {
		for i := 0; i < len(places) && len(asked) < probeMany; i++ {
			ask(places[i].Client)
		}
		return dead
	}
	for i := range out.claims {
		c := &out.claims[i]
		if c.State != engine.Waiting && !(ch.renew && c.State == engine.Held && c.Contended) {
			continue
		}
		at := slices.IndexFunc(places, func(p line.Place) bool { return p.ID == c.ID })
		switch {
		case at < 0:
		case c.State == engine.Held: // are those still there for whom it is contended?
			for j := len(places) - 1; j >= 0 && !places[j].Held && len(asked) < probeFew; j-- {
				ask(places[j].Client)
			}
		case ch.renew || at == 0 || places[at-1].Held:
			for j := 0; j < at && len(asked) < probeFew; j++ {
				ask(places[j].Client)
			}
			fallthrough
		default:
			if at > 0 {
				ask(places[at-1].Client)
			}
		}
	}
	return dead
}

func anyState(cs []engine.Claim, s engine.State) bool {
	return slices.ContainsFunc(cs, func(c engine.Claim) bool { return c.State == s })
}

// arm says whose death must be heard until when.
type arm struct {
	client string
	until  time.Duration
}

// heed completes an outcome: whose deaths this client's waiting claims must
// hear of, which other waiting clients have to look again for themselves, and
// whom to tell what an earlier attempt, or a dead client, may not have told.
func (e *Engine) heed(s *state, before []line.Place, now time.Duration, out *outcome, ch *change, dead map[string]bool) {
	places := s.line.Places
	if ch.tell {
		for i := range places {
			p := &places[i]
			if !p.Held {
				break
			}
			c := engine.Claim{Name: s.name, ID: p.ID, Ticket: p.Ticket, Units: p.Units, Limit: s.line.Limit, State: engine.Held}
			if c.Contended = !places[len(places)-1].Held; p.Evicted {
				c.State, c.Evicted = engine.Gone, true
			}
			out.notes = append(out.notes, line.Note{Client: p.Client, Claim: c})
		}
	}
	// No claim is told what its reply says; no dead client is told anything.
	out.notes = slices.DeleteFunc(out.notes, func(n line.Note) bool {
		return dead[n.Client] || slices.ContainsFunc(out.claims, func(c engine.Claim) bool { return c.ID == n.Claim.ID })
	})
	if ch.look || anyState(out.claims, engine.Waiting) {
		for i := range places {
			if p := &places[i]; p.Client == e.client && !p.Held {
				for _, c := range ahead(places, i) {
					out.arm = append(out.arm, arm{c, p.Deadline})
				}
			}
		}
	}
	out.notes = append(out.notes, rearm(s, before, e.client)...)
}

// rearm asks other waiting clients to look again for themselves, if a change
// gave them others to listen to. In a line of exclusive claims that is nobody:
// who is the first to wait now listened to the holder already, when that was
// still waiting ahead of it.
func rearm(s *state, before []line.Place, me string) (notes []line.Note) {
	places := s.line.Places
	j := 0
	for i := range places {
		p := &places[i]
		for j < len(before) && before[j].Ticket < p.Ticket {
			j++
		}
		if j == len(before) {
			break // new ones, who have seen the line as it is
		}
		if p.Held || p.Client == me || before[j].Ticket != p.Ticket {
			continue
		}
		if i > 0 && !places[i-1].Held { // not the first to wait: it listens to the next ahead
			if next := places[i-1].Client; next == p.Client || j > 0 && !before[j-1].Held && before[j-1].Client == next {
				continue
			}
		} else if i == j && (i == 0 || before[j-1].Held) {
			continue // the first, as before; who came to hold meanwhile was behind it
		} else if had := ahead(before, j); !slices.ContainsFunc(ahead(places, i), func(c string) bool { return !slices.Contains(had, c) }) {
			continue
		}
		notes = append(notes, line.Note{Client: p.Client, Claim: engine.Claim{Name: s.name}})
	}
	return notes
}

// ahead lists the clients that the claim waiting at i must outlive or outwait:
// the holders if it is the first to wait, else the next one ahead.
func ahead(places []line.Place, i int) (clients []string) {
	from := i - 1
	if i == 0 {
		return nil
	}
	if places[i-1].Held {
		from = 0
	}
	for ; from < i && len(clients) < probeFew; from++ {
		c := places[from].Client
		if c != places[i].Client && !slices.Contains(clients, c) {
			clients = append(clients, c)
		}
	}
	return clients
}
