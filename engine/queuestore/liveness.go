package queuestore

import (
	"context"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// Where clients have lives, a claim whose client is gone need not expire. To ask
// may cost a call of the system for each client, so it is asked only where the
// answer matters:
//
//   - of every client that a change is about to notify: a new holder must be alive,
//     and so must a holder that is notified that it is contended;
//   - of those ahead of a claim that has to wait: holders by the first waiter,
//     the next ahead by the others, more of them by renewals. They are a few at a
//     time, and each renewal goes on where the last one ended;
//   - of everybody, before a request is refused because of them.
//
// A client that waits also awaits the end of a few of those. So every claim of a
// dead client is noticed by the next live one behind it. With more than askFew ahead
// that can take several renewals.

const (
	askFew   = 16   // clients asked about for one claim that waits
	askMany  = 1024 // clients asked about before refusing, or after a death
	maxAsked = 1024 // names of which a client knows where its questions ended; all are forgotten then
)

// death says until when a claim has to learn of a client's death.
type death struct {
	client string
	until  time.Duration
}

// apply runs the operation on the record. Clients that turn out to be dead leave
// the queue first, which may change everything, so that it then begins again
// without them; each round finds at least one more, so it ends. It reports
// whether there were any.
func (e *Engine) apply(c *Record, op *operation) (died bool) {
	if e.lives == nil {
		op.outcome = outcome{}
		op.run(c, op)
		e.heed(c, nil, op, nil)
		return false
	}
	l := &c.Queue
	c.before = append(c.before[:0], l.Places...) // package queue works in place
	before := queue.Queue{Last: l.Last, Limit: l.Limit, Places: c.before}
	var dead map[string]bool
	for {
		op.outcome = outcome{}
		var left []queue.Notification
		if len(dead) > 0 {
			left = l.Depart(c.Now, c.Name, func(client string) bool { return dead[client] })
		}
		op.run(c, op)
		op.notifications = append(left, op.notifications...)

		more := e.findDead(l, op, dead)
		if len(more) == 0 {
			break
		}
		if dead == nil {
			dead = map[string]bool{}
		}
		for _, client := range more {
			dead[client] = true
		}
		l.Last, l.Limit, l.Places = before.Last, before.Limit, append(l.Places[:0], before.Places...)
	}
	e.heed(c, before.Places, op, dead)
	return len(dead) > 0
}

// findDead returns dead clients with claims in the queue, where that could change the
// outcome of the operation.
func (e *Engine) findDead(l *queue.Queue, op *operation, known map[string]bool) (dead []string) {
	places := l.Places
	refused := op.join != nil && (op.err != nil || op.join.NoWait && !anyState(op.claims, engine.Held))
	if len(op.notifications) == 0 && !refused && !op.polls && op.renews == nil && !anyState(op.claims, engine.Waiting) {
		return nil
	}
	asked := make(map[string]bool)
	ask := func(client string) {
		if asked[client] || known[client] {
			return
		}
		asked[client] = true
		if e.isDead(client) {
			dead = append(dead, client)
		}
	}
	for i := range op.notifications {
		ask(op.notifications[i].Client)
	}
	askOf := func(p *queue.Place) {
		if !p.Detached { // it stays, whatever became of its client
			ask(p.Client)
		}
	}
	if refused || op.polls {
		for i := 0; i < len(places) && len(asked) < askMany; i++ {
			askOf(&places[i])
		}
		return dead
	}
	for i := range op.claims {
		c := &op.claims[i]
		if c.State != engine.Waiting && !(op.renews != nil && c.State == engine.Held && c.Contended) {
			continue
		}
		at := slices.IndexFunc(places, func(p queue.Place) bool { return p.ID == c.ID })
		switch {
		case at < 0:
		case c.State == engine.Held: // are those still there for whom it is contended?
			for j := len(places) - 1; j >= 0 && !places[j].Held && len(asked) < askFew; j-- {
				askOf(&places[j])
			}
		case op.renews != nil || at == 0 || places[at-1].Held:
			from, n := e.askedUpTo(c.Name, places[:at]), 0
			for ; n < at && len(asked) < askFew; n++ {
				askOf(&places[(from+n)%at])
			}
			if 0 < n && n < at {
				e.endedAt(c.Name, places[(from+n-1)%at].Ticket)
			}
			fallthrough
		default:
			if at > 0 {
				askOf(&places[at-1])
			}
		}
	}
	return dead
}

// askedUpTo is how many of the places were asked after when the last questions of a name
// ended. Without it each renewal would ask after the same few, and the rest be neither
// asked after nor awaited. A stale answer only changes where the questions begin.
func (e *Engine) askedUpTo(name string, places []queue.Place) int {
	e.mu.Lock()
	last := e.asked[name]
	e.mu.Unlock()
	return max(0, slices.IndexFunc(places, func(p queue.Place) bool { return p.Ticket > last }))
}

// endedAt notes the ticket that was asked after last.
func (e *Engine) endedAt(name string, ticket uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.asked) >= maxAsked {
		clear(e.asked)
	}
	e.asked[name] = ticket
}

func (e *Engine) isDead(client string) bool { return client != e.client && e.lives.Dead(client) }

func anyState(cs []engine.Claim, s engine.State) bool {
	return slices.ContainsFunc(cs, func(c engine.Claim) bool { return c.State == s })
}

// heed completes an outcome. It adds notifications that an earlier attempt, or a dead
// client, may not have sent, the clients whose deaths this client's waiting claims must
// learn of, and the other waiting clients that have to poll.
func (e *Engine) heed(c *Record, before []queue.Place, op *operation, dead map[string]bool) {
	places := c.Queue.Places
	if op.notifies {
		op.notifications = append(op.notifications, notifyAll(c)...)
	}
	// No claim is notified of what its reply says, and no dead client of anything.
	op.notifications = slices.DeleteFunc(op.notifications, func(n queue.Notification) bool {
		return dead[n.Client] || slices.ContainsFunc(op.claims, func(c engine.Claim) bool { return c.ID == n.Claim.ID })
	})
	if e.lives == nil {
		return
	}
	if op.polls || anyState(op.claims, engine.Waiting) {
		for i := range places {
			if p := &places[i]; p.Client == e.client && !p.Held {
				for _, client := range ahead(places, i) {
					op.await = append(op.await, death{client, p.Deadline})
				}
			}
		}
	}
	op.notifications = append(op.notifications, rearm(c, before, e.client)...)
}

// notifyAll notifies every holder of its state.
func notifyAll(c *Record) (notifications []queue.Notification) {
	places := c.Queue.Places
	for i := range places {
		p := &places[i]
		if !p.Held {
			break
		}
		n := engine.Claim{Name: c.Name, ID: p.ID, Ticket: p.Ticket, Permits: p.Permits, Limit: c.Queue.Limit, State: engine.Held}
		if n.Contended = !places[len(places)-1].Held; p.Revoked {
			n.State, n.Revoked = engine.Gone, true
		}
		notifications = append(notifications, queue.Notification{Client: p.Client, Claim: n})
	}
	return notifications
}

// rearm asks other waiting clients to poll, if a change gave them others to await: by a
// notification that names the queue and says nothing of a claim. A queue of exclusive
// claims needs none: the first waiter awaited the holder already, when that was still
// waiting ahead of it.
func rearm(c *Record, before []queue.Place, me string) (notifications []queue.Notification) {
	places := c.Queue.Places
	j := 0
	for i := range places {
		p := &places[i]
		for j < len(before) && before[j].Ticket < p.Ticket {
			j++
		}
		if j == len(before) {
			break // new ones, who have seen the queue as it is
		}
		if p.Held || p.Client == me || before[j].Ticket != p.Ticket {
			continue
		}
		if i > 0 && !places[i-1].Held { // not the first to wait: it awaits the next ahead
			if next := places[i-1].Client; next == p.Client || j > 0 && !before[j-1].Held && before[j-1].Client == next {
				continue
			}
		} else if i == j && (i == 0 || before[j-1].Held) {
			continue // the first, as before; who came to hold meanwhile was behind it
		} else if had := ahead(before, j); !slices.ContainsFunc(ahead(places, i), func(c string) bool { return !slices.Contains(had, c) }) {
			continue
		}
		notifications = append(notifications, queue.Notification{Client: p.Client, Claim: engine.Claim{Name: c.Name}})
	}
	return notifications
}

// ahead lists the clients that the claim waiting at i must outlive or outwait: the holders
// if it is the first to wait, otherwise the next one ahead. It leaves out detached claims:
// their client's death frees nothing, and a claim that awaited a dead one would poll again
// and again.
func ahead(places []queue.Place, i int) (clients []string) {
	from := i - 1
	if i == 0 {
		return nil
	}
	if places[i-1].Held {
		from = 0
	}
	for ; from < i && len(clients) < askFew; from++ {
		c := places[from].Client
		if !places[from].Detached && c != places[i].Client && !slices.Contains(clients, c) {
			clients = append(clients, c)
		}
	}
	return clients
}

// send brings one notification to its client.
func (e *Engine) send(n *queue.Notification) {
	if n.Client == e.client {
		e.Post(n.Claim)
	} else {
		e.store.Notify(n.Client, n.Claim)
	}
}

// PollAfter removes dead clients from a queue and notifies everybody who holds in it: a
// client that died may have made them hold and ended before it could notify them. See
// [Liveness].
func (e *Engine) PollAfter(ctx context.Context, name string) error {
	return e.pollAfter(ctx, name, &operation{polls: true, notifies: true})
}

func (e *Engine) pollAfter(ctx context.Context, name string, op *operation) error {
	op.run = func(c *Record, op *operation) {
		op.notifications = c.Queue.Depart(c.Now, c.Name, func(string) bool { return false })
	}
	_, err := e.update(ctx, name, op)
	return err
}

// maxPolling bounds the goroutines of pollSoon. Renewals poll the queues beyond that.
const maxPolling = 256

// pollSoon polls a queue on behalf of a caller that must not wait: one goroutine per name
// at a time.
func (e *Engine) pollSoon(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lives == nil || e.end.Err() != nil || e.polling[name] || len(e.polling) >= maxPolling {
		return
	}
	e.polling[name] = true
	e.tasks.Go(func() {
		e.mu.Lock()
		delete(e.polling, name) // before looking: a later request is about later changes
		e.mu.Unlock()
		_ = e.pollAfter(e.end, name, &operation{polls: true}) // an error here is an error of the next Renew too
	})
}
