package queue

import (
	"cmp"
	"slices"
	"time"

	"leasehold/engine"
)

// Queue is the queue of one name. The zero value is the queue of a new name. The fields
// are exported for engines to store; only this package's methods may change them.
type Queue struct {
	Last   uint64  // the highest ticket ever given out
	Limit  int32   // of the claims in Places; meaningless if there are none
	Places []Place // in order; the held ones are a prefix
}

// Place is one claim as the queue remembers it.
type Place struct {
	ID       engine.ID
	Ticket   uint64
	Client   string        // the client to notify; chosen by the engine, opaque here
	Owner    string        // who made the claim, for people: see [engine.Owner.Text]
	Deadline time.Duration // by the engine's clock; at most Asked ahead of it
	Asked    time.Duration // the longest lifetime asked for at once
	Permits  int32
	Held     bool
	Detached bool
	Revoked  bool // marked: held until its holder leaves or its deadline passes

	// Notified means that the holder knows that somebody waits or was refused. So one
	// holder is not notified of every single arrival.
	Notified bool
}

// Notification is for a client: one of its claims changed.
type Notification struct {
	Client string
	Claim  engine.Claim
}

// Join takes a place at the end, or finds the place that r.ID already has. micros is the
// engine's wall clock in microseconds. It seeds tickets, so that they rise even if the
// engine forgot the queue. The request has passed [engine.Request.Check].
func (l *Queue) Join(now time.Duration, micros uint64, client string, r engine.Request) (engine.Claim, []Notification, error) {
	if i := l.find(now, r.ID); i >= 0 {
		// A retry of a Join whose answer was lost. What it replaced is gone
		// since the first arrival.
		p := &l.Places[i]
		if !p.Revoked {
			p.extend(now, r.WaitTTL)
		}
		notifications := l.promote(now, r.Name, r.ID)
		return l.reply(now, r.Name, r.ID), notifications, nil
	}

	// Decide every refusal before anything changes: a refused request leaves
	// nothing behind, and must not cost the caller the claim it replaces.
	others := 0
	for i := range l.Places {
		p := &l.Places[i]
		if p.expired(now) || p.ID == r.Replaces {
			continue
		}
		if l.Limit != r.Limit {
			return engine.Claim{}, nil, &engine.LimitError{Name: r.Name, Have: l.Limit, Want: r.Limit}
		}
		others++
	}
	if others >= engine.MaxQueue {
		return engine.Claim{}, nil, engine.Refuse("the queue has %d claims already, the most: let fewer callers wait for one name", others)
	}
	ticket := max(l.Last+1, micros)
	if ticket > engine.MaxTicket {
		return engine.Claim{}, nil, engine.Refuse("ticket %d is above %d: the engine's clock is wrong; set it", ticket, uint64(engine.MaxTicket))
	}

	if r.Replaces != (engine.ID{}) {
		l.remove(func(p *Place) bool { return p.ID == r.Replaces })
	}
	var notifications []Notification
	if r.NoWait {
		notifications = l.promote(now, r.Name, r.ID)
		if !l.fits(r.Permits, r.Limit) {
			notifications = l.notifyHolders(r.Name, notifications)
			return engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit, State: engine.Gone}, notifications, nil
		}
	}
	l.Last, l.Limit = ticket, r.Limit
	l.Places = append(l.Places, Place{
		ID: r.ID, Ticket: ticket, Client: client, Owner: r.Owner.Text(), Permits: r.Permits,
		Deadline: now + r.WaitTTL, Asked: r.WaitTTL, Detached: r.Detached,
	})
	notifications = append(notifications, l.promote(now, r.Name, r.ID)...)
	if !l.Places[len(l.Places)-1].Held {
		notifications = l.notifyHolders(r.Name, notifications)
	}
	return l.reply(now, r.Name, r.ID), notifications, nil
}

// Renew extends one claim and returns its state.
func (l *Queue) Renew(now time.Duration, r engine.Renewal) (engine.Claim, []Notification) {
	i := l.find(now, r.ID)
	if i >= 0 && !l.Places[i].Revoked {
		l.Places[i].extend(now, r.Want)
	}
	notifications := l.promote(now, r.Name, r.ID)
	return l.reply(now, r.Name, r.ID), notifications
}

// Leave removes one claim and returns the state in which it found it.
func (l *Queue) Leave(now time.Duration, name string, id engine.ID) (engine.Claim, []Notification) {
	found := engine.Claim{Name: name, ID: id, State: engine.Gone}
	if i := l.find(now, id); i >= 0 {
		// As it was before this call: promoting first could only turn a claim
		// nobody was told of into a held one, for nothing.
		found = l.claim(now, name, i)
		found.TTL, found.PollAfter = 0, 0
	}
	l.remove(func(p *Place) bool { return p.ID == id })
	return found, l.promote(now, name, id)
}

// Revoke ends the claim with that ticket and notifies its client. It removes a waiting
// claim at once. It marks a holder, or removes it at once too if immediately is true.
func (l *Queue) Revoke(now time.Duration, name string, ticket uint64, immediately bool) ([]Notification, error) {
	notifications := l.promote(now, name, engine.ID{})
	i := slices.IndexFunc(l.Places, func(p Place) bool { return p.Ticket == ticket })
	if i < 0 {
		return notifications, engine.ErrNoClaim
	}
	p := &l.Places[i]
	p.Revoked = true
	notifications = append(notifications, Notification{p.Client, l.claim(now, name, i)})
	if !p.Held || immediately {
		l.remove(func(p *Place) bool { return p.Ticket == ticket })
	}
	return append(notifications, l.promote(now, name, engine.ID{})...), nil
}

// Depart removes the claims of clients that are gone, except detached ones.
func (l *Queue) Depart(now time.Duration, name string, gone func(client string) bool) []Notification {
	l.remove(func(p *Place) bool { return !p.Detached && gone(p.Client) })
	return l.promote(now, name, engine.ID{})
}

// View returns the queue for inspection, in order and without expired claims.
func (l *Queue) View(now time.Duration, name string) engine.Queue {
	v := engine.Queue{Name: name}
	lastWaiter := -1 // nothing was promoted: who stands last may have expired
	for i, p := range l.Places {
		if !p.Held && !p.expired(now) {
			lastWaiter = i
		}
	}
	for i := range l.Places {
		if l.Places[i].expired(now) {
			continue
		}
		c := l.claim(now, name, i)
		c.Contended = i < lastWaiter
		c.ID, c.PollAfter, c.TTL = engine.ID{}, 0, min(l.Places[i].Deadline-now, l.Places[i].Asked)
		c.Owner = engine.ParseOwner(l.Places[i].Owner)
		if l.Places[i].Held {
			c.State = engine.Held // also if marked: it still takes its room
		}
		v.Claims = append(v.Claims, c)
		v.Limit = l.Limit
	}
	return v
}

// Empty reports whether the queue has no claims.
func (l *Queue) Empty(now time.Duration) bool {
	for i := range l.Places {
		if !l.Places[i].expired(now) {
			return false
		}
	}
	return true
}

func (p *Place) expired(now time.Duration) bool { return p.Deadline <= now }

// extend never moves a deadline earlier: a late, shorter renewal must not cut
// a longer one (rule 4).
func (p *Place) extend(now, want time.Duration) {
	p.Deadline, p.Asked = max(p.Deadline, now+want), max(p.Asked, want)
}

// bound limits a deadline after the clock stepped back, which moves every deadline away: a
// dead holder would keep its name for as long as the step was, and a living one would be
// granted that much. The lifetime asked for is enough for both, counted from now, which is
// later than when it was asked. So no owner is cut short: none trusts more than it asked
// for, from when it asked.
func (p *Place) bound(now time.Duration) { p.Deadline = min(p.Deadline, now+p.Asked) }

// find returns the index of a claim that has not expired, or -1. A claim past its deadline
// is gone for its owner even while its record is there (rule 5).
func (l *Queue) find(now time.Duration, id engine.ID) int {
	for i := range l.Places {
		if p := &l.Places[i]; p.ID == id && !p.expired(now) {
			return i
		}
	}
	return -1
}

// remove works in place and by pointer: it runs over the whole queue in every
// call, and slices.DeleteFunc would have each place escape to the heap.
func (l *Queue) remove(which func(*Place) bool) {
	n := 0
	for i := range l.Places {
		if which(&l.Places[i]) {
			continue
		}
		if n < i {
			l.Places[n] = l.Places[i]
		}
		n++
	}
	clear(l.Places[n:])
	l.Places = l.Places[:n]
}

// Holders is the rule, for every engine. It returns how many of n claims hold; these are
// the first ones. A claim is held exactly when the permits of all claims up to and
// including it sum to at most the limit.
func Holders(n int, limit int32, permits func(i int) int32) int {
	sum := int64(0)
	for i := range n {
		if sum += int64(permits(i)); sum > int64(limit) {
			return i
		}
	}
	return n
}

// promote drops expired claims and lets the rule decide who holds. It notifies every new
// holder except subject, whose reply says it.
func (l *Queue) promote(now time.Duration, name string, subject engine.ID) (notifications []Notification) {
	l.remove(func(p *Place) bool { return p.expired(now) })
	for i := range l.Places {
		l.Places[i].bound(now)
	}
	became := make([]int, 0, 4) // so many cost no memory
	for i := range Holders(len(l.Places), l.Limit, func(i int) int32 { return l.Places[i].Permits }) {
		if p := &l.Places[i]; !p.Held {
			p.Held = true
			became = append(became, i)
		}
	}
	// Only now is it known who holds the last place, hence who is contended.
	for _, i := range became {
		p := &l.Places[i]
		if p.ID == subject {
			continue
		}
		p.Notified = l.contended(i)
		c := l.claim(now, name, i)
		c.TTL, c.PollAfter = 0, 0
		notifications = append(notifications, Notification{p.Client, c})
	}
	return notifications
}

// fits reports whether a claim joining now would be held at once.
func (l *Queue) fits(permits, limit int32) bool {
	sum := int64(permits)
	for i := range l.Places {
		sum += int64(l.Places[i].Permits)
	}
	return sum <= int64(limit)
}

// contended reports whether somebody waits behind place i. Waiting places are a suffix, so
// the last place tells.
func (l *Queue) contended(i int) bool {
	last := len(l.Places) - 1
	return i < last && !l.Places[last].Held
}

// notifyHolders notifies each holder once that it is contended.
func (l *Queue) notifyHolders(name string, notifications []Notification) []Notification {
	for i := range l.Places {
		p := &l.Places[i]
		if !p.Held {
			break
		}
		if p.Notified || p.Revoked {
			continue
		}
		p.Notified = true
		notifications = append(notifications, Notification{p.Client, engine.Claim{
			Name: name, ID: p.ID, Ticket: p.Ticket, Permits: p.Permits, Limit: l.Limit,
			State: engine.Held, Contended: true,
		}})
	}
	return notifications
}

// reply returns what the reply tells a claim's owner, and records that the owner knows it.
func (l *Queue) reply(now time.Duration, name string, id engine.ID) engine.Claim {
	i := l.find(now, id)
	if i < 0 {
		return engine.Claim{Name: name, ID: id, State: engine.Gone}
	}
	c := l.claim(now, name, i)
	l.Places[i].Notified = c.Contended
	return c
}

func (l *Queue) claim(now time.Duration, name string, i int) engine.Claim {
	p := &l.Places[i]
	c := engine.Claim{
		Name: name, ID: p.ID, Ticket: p.Ticket, Permits: p.Permits, Limit: l.Limit,
		State: engine.Waiting, Contended: l.contended(i), TTL: p.Deadline - now,
	}
	switch {
	case p.Revoked:
		c.State, c.Revoked, c.TTL = engine.Gone, true, 0
	case p.Held:
		c.State = engine.Held
	case i == 0 || l.Places[i-1].Held:
		c.PollAfter = l.pollAfter(now, i)
	}
	return c
}

// pollAfter returns after how long expiry alone lets the first waiter, at i, hold.
func (l *Queue) pollAfter(now time.Duration, i int) time.Duration {
	sum := int64(l.Places[i].Permits)
	ahead := slices.Clone(l.Places[:i])
	for _, p := range ahead {
		sum += int64(p.Permits)
	}
	slices.SortFunc(ahead, func(a, b Place) int { return cmp.Compare(a.Deadline, b.Deadline) })
	for _, p := range ahead {
		if sum -= int64(p.Permits); sum <= int64(l.Limit) {
			return p.Deadline - now
		}
	}
	return 0
}
