package queue_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// model is the queue written the naive way: a list of claims, of which
// everything is computed anew at every step, straight from the one rule. It
// shares no code with package queue and keeps no state but the list, what each
// claim's owner was told, and who was known to hold after the last step.
type model struct {
	last   uint64
	claims []*mclaim // in order of arrival
}

type mclaim struct {
	id       engine.ID
	ticket   uint64
	client   string
	permits  int32
	limit    int32
	deadline time.Duration
	asked    time.Duration // the longest life anybody asked for it at once
	detached bool
	marked   bool
	known    bool // was held after the last step
	notified bool // its owner has heard that it is contended, since its last reply
}

// notification is what somebody must be sent, reduced to what can be compared.
type notification struct {
	client    string
	id        engine.ID
	state     engine.State
	contended bool
	revoked   bool
}

func (m *model) alive(now time.Duration) (cs []*mclaim) {
	for _, c := range m.claims {
		if now < c.deadline {
			cs = append(cs, c)
		}
	}
	return cs
}

// held is the one rule: the permits of all claims up to and including this one
// sum to at most the limit.
func (m *model) held(now time.Duration, c *mclaim) bool {
	sum := int64(0)
	for _, x := range m.alive(now) {
		sum += int64(x.permits)
		if x == c {
			return sum <= int64(c.limit)
		}
	}
	return false
}

// contended: c holds and somebody alive behind it does not.
func (m *model) contended(now time.Duration, c *mclaim) bool {
	behind := false
	for _, x := range m.alive(now) {
		if behind && !m.held(now, x) {
			return true
		}
		behind = behind || x == c
	}
	return false
}

// look is the brute-force answer: try every moment from now on.
func (m *model) pollAfter(now time.Duration, c *mclaim) time.Duration {
	if m.held(now, c) {
		return 0
	}
	for _, x := range m.alive(now) {
		if x == c {
			break
		}
		if !m.held(now, x) {
			return 0 // not the first waiter
		}
	}
	for t := now + 1; ; t++ {
		sum := int64(0)
		for _, x := range m.claims {
			if x == c {
				break
			}
			if t < x.deadline { // whether c itself lives that long does not matter
				sum += int64(x.permits)
			}
		}
		if sum+int64(c.permits) <= int64(c.limit) {
			return t - now
		}
	}
}

func (m *model) find(now time.Duration, id engine.ID) *mclaim {
	for _, c := range m.alive(now) {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (m *model) drop(which func(*mclaim) bool) {
	var rest []*mclaim
	for _, c := range m.claims {
		if !which(c) {
			rest = append(rest, c)
		}
	}
	m.claims = rest
}

// after ends a step: who holds now and was not known to is told, the subject
// excepted, whose reply says it.
func (m *model) after(now time.Duration, subject engine.ID) (notifications []notification) {
	m.drop(func(c *mclaim) bool { return now >= c.deadline })
	for _, c := range m.claims {
		if c.deadline > now+c.asked { // as it would be, were it asked for now
			c.deadline = now + c.asked
		}
	}
	for _, c := range m.claims {
		if m.held(now, c) && !c.known {
			c.known = true
			if c.id != subject {
				c.notified = m.contended(now, c)
				notifications = append(notifications, notification{c.client, c.id, engine.Held, c.notified, false})
			}
		}
	}
	return notifications
}

// tell tells every holder, once, that it is contended.
func (m *model) notify() (notifications []notification) {
	for _, c := range m.claims {
		if c.known && !c.marked && !c.notified {
			c.notified = true
			notifications = append(notifications, notification{c.client, c.id, engine.Held, true, false})
		}
	}
	return notifications
}

// claim is what the owner must be told now, and then knows.
func (m *model) claim(now time.Duration, name string, id engine.ID) engine.Claim {
	c := m.find(now, id)
	if c == nil {
		return engine.Claim{Name: name, ID: id, State: engine.Gone}
	}
	c.notified = m.contended(now, c)
	out := engine.Claim{
		Name: name, ID: id, Ticket: c.ticket, Permits: c.permits, Limit: c.limit,
		State: engine.Waiting, Contended: c.notified, TTL: c.deadline - now, PollAfter: m.pollAfter(now, c),
	}
	if m.held(now, c) {
		out.State = engine.Held
	}
	if c.marked {
		out.State, out.Revoked, out.TTL = engine.Gone, true, 0
	}
	return out
}

func (m *model) join(now time.Duration, micros uint64, client string, r engine.Request) (engine.Claim, []notification, error) {
	if c := m.find(now, r.ID); c != nil {
		c.extend(now, r.WaitTTL)
		notifications := m.after(now, r.ID)
		return m.claim(now, r.Name, r.ID), notifications, nil
	}
	for _, c := range m.alive(now) {
		if c.id != r.Replaces && c.limit != r.Limit {
			return engine.Claim{}, nil, engine.ErrLimit
		}
	}
	ticket := m.last + 1
	if micros > ticket {
		ticket = micros
	}
	if ticket > engine.MaxTicket {
		return engine.Claim{}, nil, engine.ErrRefused
	}
	m.drop(func(c *mclaim) bool { return c.id == r.Replaces })
	var notifications []notification
	c := &mclaim{id: r.ID, ticket: ticket, client: client, permits: r.Permits, limit: r.Limit, deadline: now + r.WaitTTL, asked: r.WaitTTL, detached: r.Detached}
	m.claims = append(m.claims, c)
	if r.NoWait && !m.held(now, c) {
		m.drop(func(x *mclaim) bool { return x == c })
		notifications = append(m.after(now, r.ID), m.notify()...)
		return engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit, State: engine.Gone}, notifications, nil
	}
	m.last = ticket
	notifications = m.after(now, r.ID)
	if !m.held(now, c) {
		notifications = append(notifications, m.notify()...)
	}
	return m.claim(now, r.Name, r.ID), notifications, nil
}

func (c *mclaim) extend(now, want time.Duration) {
	switch {
	case c.marked:
		return
	case want > c.asked:
		c.asked = want
	}
	if now+want > c.deadline {
		c.deadline = now + want
	}
}

func (m *model) renew(now time.Duration, r engine.Renewal) (engine.Claim, []notification) {
	if c := m.find(now, r.ID); c != nil {
		c.extend(now, r.Want)
	}
	notifications := m.after(now, r.ID)
	return m.claim(now, r.Name, r.ID), notifications
}

// leave answers the state before the call, as far as anybody could know it.
func (m *model) leave(now time.Duration, id engine.ID) (found engine.State, notifications []notification) {
	found = engine.Gone
	if c := m.find(now, id); c != nil && !c.marked {
		found = engine.Waiting
		if c.known {
			found = engine.Held
		}
	}
	m.drop(func(c *mclaim) bool { return c.id == id })
	return found, m.after(now, id)
}

func (m *model) revoke(now time.Duration, ticket uint64, immediately bool) ([]notification, error) {
	notifications := m.after(now, engine.ID{})
	for _, c := range m.claims {
		if c.ticket == ticket {
			c.marked = true
			notifications = append(notifications, notification{c.client, c.id, engine.Gone, false, true})
			if immediately || !m.held(now, c) {
				m.drop(func(x *mclaim) bool { return x == c })
			}
			return append(notifications, m.after(now, engine.ID{})...), nil
		}
	}
	return notifications, engine.ErrNoClaim
}

func (m *model) depart(now time.Duration, client string) []notification {
	m.drop(func(c *mclaim) bool { return c.client == client && !c.detached })
	return m.after(now, engine.ID{})
}

// driver takes both through the same steps. pick chooses, from 0 to n-1; fail
// does not return.
type driver struct {
	pick func(what string, n int) int
	fail func(format string, args ...any)

	now   time.Duration
	queue queue.Queue
	model model

	ids    []engine.ID                 // every claim ever asked for, newest last
	best   map[engine.ID]engine.State  // highest state ever reported
	ends   map[engine.ID]time.Duration // latest deadline ever granted
	asked  map[engine.ID]time.Duration // longest life ever asked for
	woken  map[engine.ID]int           // notifications that said held for the first time
	ticket uint64                      // the highest given
}

const lockName = "n"

func newDriver(pick func(string, int) int, fail func(string, ...any)) *driver {
	return &driver{pick: pick, fail: fail, now: 1000, best: map[engine.ID]engine.State{}, ends: map[engine.ID]time.Duration{}, asked: map[engine.ID]time.Duration{}, woken: map[engine.ID]int{}}
}

func (d *driver) id(n int) (id engine.ID) {
	id[0], id[1], id[15] = byte(n), byte(n>>8), 1
	return id
}

// some is the ID of a claim that was asked for lately, or of none.
func (d *driver) some() engine.ID {
	if n := d.pick("claim", 9); n < len(d.ids) {
		return d.ids[len(d.ids)-1-n]
	}
	return d.id(math.MaxUint16)
}

func (d *driver) step() {
	d.now += time.Duration(d.pick("passes", 4))
	if d.pick("step of the clock", 16) == 15 {
		d.now += time.Duration(d.pick("by", 60) - 40)
		for id, end := range d.ends {
			d.ends[id] = min(end, d.now+d.asked[id])
		}
	}
	switch d.pick("step", 10) {
	case 0, 1, 2, 3:
		d.join()
	case 4, 5, 6:
		r := engine.Renewal{Name: lockName, ID: d.some(), Want: time.Duration(1 + d.pick("want", 12))}
		d.asked[r.ID] = max(d.asked[r.ID], r.Want)
		got, notifications := d.queue.Renew(d.now, r)
		want, expect := d.model.renew(d.now, r)
		d.reply("Renew", got, want, notifications, expect)
	case 7:
		id := d.some()
		got, notifications := d.queue.Leave(d.now, lockName, id)
		want, expect := d.model.leave(d.now, id)
		if got.State != want {
			d.fail("Leave found %v, want %v", got.State, want)
		}
		d.notifications("Leave", notifications, expect, id)
	case 8:
		ticket := d.model.last - uint64(min(d.pick("ticket", 6), int(d.model.last)))
		now := d.pick("now", 2) == 1
		notifications, err := d.queue.Revoke(d.now, lockName, ticket, now)
		expect, wantErr := d.model.revoke(d.now, ticket, now)
		if !errors.Is(err, wantErr) {
			d.fail("Revoke says %v, want %v", err, wantErr)
		}
		d.notifications("Evict", notifications, expect, engine.ID{})
	case 9:
		client := fmt.Sprint(d.pick("client", 4))
		notifications := d.queue.Depart(d.now, lockName, func(c string) bool { return c == client })
		d.notifications("Depart", notifications, d.model.depart(d.now, client), engine.ID{})
	}
	d.compare()
}

// crowded keeps the model's arithmetic short.
const crowded = 24

func (d *driver) join() {
	if len(d.queue.Places) >= crowded {
		return
	}
	r := engine.Request{Name: lockName, Limit: 3, WaitTTL: time.Duration(1 + d.pick("ttl", 12))}
	switch d.pick("kind", 8) {
	case 0, 1:
		r.Limit, r.Permits = engine.Max, engine.Max
	case 2:
		r.Limit, r.Permits = engine.Max, 1
	case 3:
		r.Limit, r.Permits = engine.Max, engine.Max-1
	default:
		r.Permits = 1 + int32(d.pick("units", 3))
	}
	if r.ID = d.some(); d.pick("again", 5) > 0 {
		r.ID = d.id(len(d.ids))
		d.ids = append(d.ids, r.ID)
	} else if d.best[r.ID] == engine.Gone {
		return // the core never joins an ID it saw gone
	} else if d.model.find(d.now, r.ID) == nil {
		// It expired, and nobody has learned that: as good as a new one, with
		// a ticket of its own.
		delete(d.best, r.ID)
		delete(d.ends, r.ID)
		delete(d.asked, r.ID)
		delete(d.woken, r.ID)
	}
	switch d.pick("flavour", 6) {
	case 0:
		r.NoWait = true
	case 1:
		if r.Replaces = d.some(); r.Replaces == r.ID {
			r.Replaces = engine.ID{}
		}
	case 2:
		r.Detached = true
	}
	d.asked[r.ID] = max(d.asked[r.ID], r.WaitTTL)
	// The engine's wall clock runs, stands still, or was set back.
	micros := []uint64{0, d.ticket, d.ticket + 5, 1}[d.pick("clock", 4)]
	client := fmt.Sprint(d.pick("client", 4))
	before, fresh := fmt.Sprint(d.queue), d.model.find(d.now, r.ID) == nil
	got, notifications, err := d.queue.Join(d.now, micros, client, r)
	want, expect, wantErr := d.model.join(d.now, micros, client, r)
	if !errors.Is(err, wantErr) {
		d.fail("Join says %v, want %v", err, wantErr)
	}
	if err != nil {
		if after := fmt.Sprint(d.queue); after != before || len(notifications) > 0 {
			d.fail("a refused Join changed %s into %s and told %v", before, after, notifications)
		}
		return
	}
	if fresh && got.State != engine.Gone {
		if got.Ticket <= d.ticket || got.Ticket < micros {
			d.fail("ticket %d follows %d, with the clock at %d", got.Ticket, d.ticket, micros)
		}
		d.ticket = got.Ticket
	}
	d.reply("Join", got, want, notifications, expect)
	if r.NoWait && got.State == engine.Gone && d.model.find(d.now, r.ID) == nil {
		for _, p := range d.queue.Places {
			if p.ID == r.ID {
				d.fail("a refused claim that does not wait is in the queue")
			}
		}
	}
}

// reply compares a reply with the model's and checks what must hold of all
// replies of a claim taken together, whatever the model thinks.
func (d *driver) reply(op string, got, want engine.Claim, notifications []queue.Notification, expect []notification) {
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.ID != want.ID {
		d.fail("%s says\n%+v, want\n%+v", op, got, want)
	}
	d.rises(op, got)
	if got.State == engine.Waiting || got.State == engine.Held {
		if asked := d.asked[got.ID]; got.TTL > asked {
			d.fail("%s grants %v, of a claim for which %v was asked at most", op, got.TTL, asked)
		} else if end := d.now + got.TTL; end < d.ends[got.ID] {
			d.fail("%s moves a deadline from %v to %v", op, d.ends[got.ID], end)
		} else {
			d.ends[got.ID] = end
		}
	}
	d.notifications(op, notifications, expect, got.ID)
}

func (d *driver) rises(op string, c engine.Claim) {
	if c.State < d.best[c.ID] {
		d.fail("%s says %v of a claim that was %v", op, c.State, d.best[c.ID])
	}
	d.best[c.ID] = c.State
}

// notifications compares what is sent with what must be sent, as sets without
// repetition, and never to the subject.
func (d *driver) notifications(op string, got []queue.Notification, want []notification, subject engine.ID) {
	left := map[notification]int{}
	for _, n := range want {
		left[n]++
	}
	for _, n := range got {
		c := n.Claim
		short := notification{n.Client, c.ID, c.State, c.Contended && c.State == engine.Held, c.Revoked}
		if left[short]--; left[short] < 0 {
			d.fail("%s tells %+v, which it should not; want %+v", op, n, want)
		}
		if c.ID == subject && subject != (engine.ID{}) {
			d.fail("%s tells its own claim %+v", op, c)
		}
		if c.Name != lockName || c.Ticket == 0 {
			d.fail("%s sends an incomplete notification: %+v", op, c)
		}
		if c.State == engine.Held && d.best[c.ID] < engine.Held {
			if d.woken[c.ID]++; d.woken[c.ID] > 1 {
				d.fail("%s tells a claim twice that it became held", op)
			}
		}
		d.rises(op, c)
	}
	for n, more := range left {
		if more > 0 {
			d.fail("%s does not tell %+v", op, n)
		}
	}
}

// compare checks the whole queue against the one rule, and inspection of it.
func (d *driver) compare() {
	sum, waiting := int64(0), false
	for i, p := range d.queue.Places {
		if p.Deadline <= d.now {
			continue // refused calls leave what has expired for the next
		}
		sum += int64(p.Permits)
		if i > 0 && p.Ticket <= d.queue.Places[i-1].Ticket {
			d.fail("ticket %d stands behind %d", p.Ticket, d.queue.Places[i-1].Ticket)
		}
		if p.Held && sum > int64(d.queue.Limit) {
			d.fail("%d permits are held, the limit is %d", sum, d.queue.Limit)
		}
		if p.Held && waiting {
			d.fail("a claim holds behind one that waits")
		}
		waiting = waiting || !p.Held
	}
	view := d.queue.View(d.now, lockName)
	alive := d.model.alive(d.now)
	if len(view.Claims) != len(alive) {
		d.fail("%d claims are shown, want %d", len(view.Claims), len(alive))
	}
	for i, c := range view.Claims {
		m := alive[i]
		state := engine.Waiting
		if m.known { // a read decides nothing: only what a call has promoted
			state = engine.Held
		}
		contended := false
		for _, behind := range alive[i+1:] {
			contended = contended || !behind.known
		}
		want := engine.Claim{
			Name: lockName, Ticket: m.ticket, Permits: m.permits, Limit: m.limit,
			State: state, Contended: contended, Revoked: m.marked, TTL: min(m.deadline-d.now, m.asked),
		}
		if fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", want) || c.ID != want.ID {
			d.fail("place %d is shown as\n%+v, want\n%+v", i, c, want)
		}
	}
	if d.queue.Empty(d.now) != (len(alive) == 0) {
		d.fail("Empty says %v of %d claims", d.queue.Empty(d.now), len(alive))
	}
}
