package sim

import (
	"slices"
	"time"

	"leasehold/engine/queue"
)

// unused is a claim that holds by the rule, and of which its client has no lease.
type unused struct {
	ticket   uint64
	since    time.Duration
	deadline time.Duration // that it had when its client had certainly forgotten it
}

// sweep looks at every name that somebody waits for, once a second.
func (w *world) sweep() {
	for _, l := range w.busy {
		for _, h := range l.holds {
			w.checkTold(h)
		}
		if w.Policy == NoOrder {
			w.checkFree(l)
			continue
		}
		w.checkRoom(l)
		w.checkJoined(l)
	}
	if w.now%time.Minute == 0 {
		n := 0
		for _, c := range w.clients {
			if c.machine != nil {
				claims, _ := c.machine.Len()
				n += claims
			}
		}
		w.counts.Claims = max(w.counts.Claims, n)
	}
	w.at(w.now+sweepEvery, w.sweep)
}

// patience is how long a claim may have room before its client knows, where nothing
// goes wrong: the next waiter polls every second, others when a third of their time has
// passed.
func (w *world) patience() time.Duration {
	const travel = time.Second // there and back, and the time between two sweeps
	if w.Policy == Polls || w.Policy == NoOrder {
		return 8*pollEvery + travel
	}
	return w.TTL/3 + time.Second + travel
}

// calm is for how long nothing has been wrong for a client, counted from since.
func (c *client) calm(since time.Duration) time.Duration {
	s := &c.w.store
	if c.stopped || c.late || !c.subscribed || c.there+c.back+c.troubles > 0 || s.down {
		return 0
	}
	return c.w.now - max(since, c.disturbed, s.back)
}

// checkRoom: of each claim that holds by the rule, its client has a lease soon, or gives it
// up. Of one that its client has forgotten, nobody moves the deadline.
func (w *world) checkRoom(l *lot) {
	now, total := w.store.now(), int64(0)
	before := l.unused
	l.unused = nil
	for i := range l.queue.Places {
		p := &l.queue.Places[i]
		if p.Deadline <= now {
			continue
		}
		if total += int64(p.Permits); total > int64(l.queue.Limit) {
			return
		}
		owner := w.addresses[p.Client]
		if l.leased(owner, p.Ticket) {
			continue
		}
		seen := unused{ticket: p.Ticket, since: w.now}
		if i := slices.IndexFunc(before, func(u unused) bool { return u.ticket == p.Ticket }); i >= 0 {
			seen = before[i]
		}
		if !owner.alive() || !owner.client.machine.Has(p.ID) {
			w.checkOrphan(l, p, &seen)
		} else if owner.client.calm(seen.since) > w.patience() {
			w.fail(Forgotten, "%v has had room for ticket %s of %s for %v, and makes no lease of it", owner.client, short(p.Ticket), l.name, w.now-seen.since)
		}
		l.unused = append(l.unused, seen)
	}
}

// leased: the client has a lease of that claim.
func (l *lot) leased(owner process, ticket uint64) bool {
	return slices.ContainsFunc(l.holds, func(h *hold) bool {
		return h.user.client == owner.client && h.ticket() == ticket
	})
}

// checkOrphan: a claim that its client has forgotten ends by its TTL. (A request that is
// still on its way may extend it once.)
func (w *world) checkOrphan(l *lot, p *queue.Place, seen *unused) {
	if w.now-seen.since <= Slowest {
		return
	}
	if seen.deadline == 0 {
		seen.deadline = p.Deadline
	}
	if w.Policy == Sessions {
		if w.addresses[p.Client].client.calm(seen.since) > 2*w.TTL+Slowest {
			w.fail(Orphan, "ticket %s of %s is nobody's, and its session has not ended after %v", short(p.Ticket), l.name, w.now-seen.since)
		}
	} else if p.Deadline > seen.deadline {
		w.fail(Orphan, "ticket %s of %s is nobody's, and its deadline moves", short(p.Ticket), l.name)
	}
}

// checkJoined: whose callers wait has a place in the queue.
func (w *world) checkJoined(l *lot) {
	now := w.store.now()
	w.stamp++
	for i := range l.queue.Places {
		if p := &l.queue.Places[i]; p.Deadline > now {
			if owner := w.addresses[p.Client]; owner.alive() {
				owner.client.seen = w.stamp
			}
		}
	}
	for _, u := range l.waiting {
		switch {
		case u.client.seen == w.stamp:
			u.absent = 0
		case u.absent == 0:
			u.absent = w.now
		case u.client.calm(u.absent) > w.patience():
			w.fail(Forgotten, "a caller of %v waits for %s, and its client has had no place in the queue for %v", u.client, l.name, w.now-u.absent)
		}
	}
}

// checkFree: where there is no order, nobody waits for what is free.
func (w *world) checkFree(l *lot) {
	switch {
	case !l.queue.Empty(w.store.now()), len(l.holds) > 0:
		l.free = 0
	case l.free == 0:
		l.free = w.now
	case w.now-l.free > w.patience():
		for _, u := range l.waiting {
			if u.client.calm(max(u.asked, l.free)) > w.patience() {
				w.fail(Forgotten, "%s has been free for %v, and a caller of %v waits for it", l.name, w.now-l.free, u.client)
			}
		}
	}
}

// settle: nobody asks any more and nothing goes wrong any more. Then everybody who waits
// holds in time, and in the end nothing is left, in the machines and in the queues.
func (w *world) settle() {
	w.settling = true
	w.say("from here on nobody asks, and nothing goes wrong")
	w.store.up()
	users := 0
	for _, c := range w.clients {
		c.there, c.back = 0, 0
		c.resume(false)
		c.disturb()
		for _, u := range c.users {
			users++
			if u.state == holds {
				u.later(upTo(c.habits, 10*time.Second), u.unlock)
			}
		}
	}
	limit := w.now + 5*time.Minute + time.Duration(users)*20*time.Millisecond
	for w.active > 0 && w.now < limit && w.violation == nil {
		w.until(w.now + time.Second)
	}
	if w.active > 0 {
		w.fail(Rest, "%d callers do not come to an end", w.active)
	}
	w.until(w.now + 3*w.TTL + 2*Slowest)
	for _, c := range w.clients {
		if c.machine == nil {
			continue
		}
		if claims, names := c.machine.Len(); claims+names > 0 {
			w.fail(Rest, "%v has %d claims of %d names that nobody wants:\n%v", c, claims, names, c.machine)
		}
	}
	for _, l := range w.lots {
		if !l.queue.Empty(w.store.now()) {
			w.fail(Rest, "the queue of %s has claims that nobody wants: %+v", l.name, l.queue.View(w.store.now(), l.name).Claims)
		}
	}
}
