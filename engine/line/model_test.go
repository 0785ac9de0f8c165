package line_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// model is the line written the naive way: a list of claims, of which
// everything is computed anew at every step, straight from the one rule. It
// shares no code with package line and keeps no state but the list, what each
// claim's owner was told, and who was known to hold after the last step.
type model struct {
	last   uint64
	claims []*mclaim // in order of arrival
}

type mclaim struct {
	id       engine.ID
	ticket   uint64
	client   string
	units    int32
	limit    int32
	deadline time.Duration
	detached bool
	marked   bool
	known    bool // was held after the last step
	told     bool // its owner has heard that it is contended, since its last reply
}

// note is what somebody must be sent, reduced to what can be compared.
type note struct {
	client    string
	id        engine.ID
	state     engine.State
	contended bool
	evicted   bool
}

func (m *model) alive(now time.Duration) (cs []*mclaim) {
	for _, c := range m.claims {
		if now < c.deadline {
			cs = append(cs, c)
		}
	}
	return cs
}

// held is the one rule: the units of all claims up to and including this one
// sum to at most the limit.
func (m *model) held(now time.Duration, c *mclaim) bool {
	sum := int64(0)
	for _, x := range m.alive(now) {
		sum += int64(x.units)
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
func (m *model) look(now time.Duration, c *mclaim) time.Duration {
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
				sum += int64(x.units)
			}
		}
		if sum+int64(c.units) <= int64(c.limit) {
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
func (m *model) after(now time.Duration, subject engine.ID) (notes []note) {
	m.drop(func(c *mclaim) bool { return now >= c.deadline })
	for _, c := range m.claims {
		if m.held(now, c) && !c.known {
			c.known = true
			if c.id != subject {
				c.told = m.contended(now, c)
				notes = append(notes, note{c.client, c.id, engine.Held, c.told, false})
			}
		}
	}
	return notes
}

// tell tells every holder, once, that it is contended.
func (m *model) tell() (notes []note) {
	for _, c := range m.claims {
		if c.known && !c.marked && !c.told {
			c.told = true
			notes = append(notes, note{c.client, c.id, engine.Held, true, false})
		}
	}
	return notes
}

// claim is what the owner must be told now, and then knows.
func (m *model) claim(now time.Duration, name string, id engine.ID) engine.Claim {
	c := m.find(now, id)
	if c == nil {
		return engine.Claim{Name: name, ID: id, State: engine.Gone}
	}
	c.told = m.contended(now, c)
	out := engine.Claim{
		Name: name, ID: id, Ticket: c.ticket, Units: c.units, Limit: c.limit,
		State: engine.Waiting, Contended: c.told, TTL: c.deadline - now, Look: m.look(now, c),
	}
	if m.held(now, c) {
		out.State = engine.Held
	}
	if c.marked {
		out.State, out.Evicted, out.TTL = engine.Gone, true, 0
	}
	return out
}

func (m *model) join(now time.Duration, micros uint64, client string, r engine.Request) (engine.Claim, []note, error) {
	if c := m.find(now, r.ID); c != nil {
		if !c.marked && now+r.WaitTTL > c.deadline {
			c.deadline = now + r.WaitTTL
		}
		notes := m.after(now, r.ID)
		return m.claim(now, r.Name, r.ID), notes, nil
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
	var notes []note
	c := &mclaim{id: r.ID, ticket: ticket, client: client, units: r.Units, limit: r.Limit, deadline: now + r.WaitTTL, detached: r.Detached}
	m.claims = append(m.claims, c)
	if r.NoWait && !m.held(now, c) {
		m.drop(func(x *mclaim) bool { return x == c })
		notes = append(m.after(now, r.ID), m.tell()...)
		return engine.Claim{Name: r.Name, ID: r.ID, Units: r.Units, Limit: r.Limit, State: engine.Gone}, notes, nil
	}
	m.last = ticket
	notes = m.after(now, r.ID)
	if !m.held(now, c) {
		notes = append(notes, m.tell()...)
	}
	return m.claim(now, r.Name, r.ID), notes, nil
}

func (m *model) renew(now time.Duration, r engine.Renewal) (engine.Claim, []note) {
	if c := m.find(now, r.ID); c != nil && !c.marked && now+r.Want > c.deadline {
		c.deadline = now + r.Want
	}
	notes := m.after(now, r.ID)
	return m.claim(now, r.Name, r.ID), notes
}

// leave answers the state before the call, as far as anybody could know it.
func (m *model) leave(now time.Duration, id engine.ID) (found engine.State, notes []note) {
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

func (m *model) evict(now time.Duration, ticket uint64, immediately bool) ([]note, error) {
	notes := m.after(now, engine.ID{})
	for _, c := range m.claims {
		if c.ticket == ticket {
			c.marked = true
			notes = append(notes, note{c.client, c.id, engine.Gone, false, true})
			if immediately || !m.held(now, c) {
				m.drop(func(x *mclaim) bool { return x == c })
			}
			return append(notes, m.after(now, engine.ID{})...), nil
		}
	}
	return notes, engine.ErrNoClaim
}

func (m *model) depart(now time.Duration, client string) []note {
	m.drop(func(c *mclaim) bool { return c.client == client && !c.detached })
	return m.after(now, engine.ID{})
}

// driver takes both through the same steps. pick chooses, from 0 to n-1; fail
// does not return.
type driver struct {
	pick func(what string, n int) int
	fail func(format string, args ...any)

	now   time.Duration
	line  line.Line
	model model

	ids    []engine.ID                 // every claim ever asked for, newest last
	best   map[engine.ID]engine.State  // highest state ever reported
	ends   map[engine.ID]time.Duration // latest deadline ever granted
	woken  map[engine.ID]int           // notes that said held for the first time
	ticket uint64                      // the highest given
}

const lockName = "n"

func newDriver(pick func(string, int) int, fail func(string, ...any)) *driver {
	return &driver{pick: pick, fail: fail, best: map[engine.ID]engine.State{}, ends: map[engine.ID]time.Duration{}, woken: map[engine.ID]int{}}
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
	switch d.pick("step", 10) {
	case 0, 1, 2, 3:
		d.join()
	case 4, 5, 6:
		r := engine.Renewal{Name: lockName, ID: d.some(), Want: time.Duration(1 + d.pick("want", 12))}
		got, notes := d.line.Renew(d.now, r)
		want, expect := d.model.renew(d.now, r)
		d.reply("Renew", got, want, notes, expect)
	case 7:
		id := d.some()
		got, notes := d.line.Leave(d.now, lockName, id)
		want, expect := d.model.leave(d.now, id)
		if got.State != want {
			d.fail("Leave found %v, want %v", got.State, want)
		}
		d.notes("Leave", notes, expect, id)
	case 8:
		ticket := d.model.last - uint64(min(d.pick("ticket", 6), int(d.model.last)))
		now := d.pick("now", 2) == 1
		notes, err := d.line.Evict(d.now, lockName, ticket, now)
		expect, wantErr := d.model.evict(d.now, ticket, now)
		if !errors.Is(err, wantErr) {
			d.fail("Evict says %v, want %v", err, wantErr)
		}
		d.notes("Evict", notes, expect, engine.ID{})
	case 9:
		client := fmt.Sprint(d.pick("client", 4))
		notes := d.line.Depart(d.now, lockName, func(c string) bool { return c == client })
		d.notes("Depart", notes, d.model.depart(d.now, client), engine.ID{})
	}
	d.compare()
}

// crowded keeps the model's arithmetic short.
const crowded = 24

func (d *driver) join() {
	if len(d.line.Places) >= crowded {
		return
	}
	r := engine.Request{Name: lockName, Limit: 3, WaitTTL: time.Duration(1 + d.pick("ttl", 12))}
	switch d.pick("kind", 8) {
	case 0, 1:
		r.Limit, r.Units = engine.Max, engine.Max
	case 2:
		r.Limit, r.Units = engine.Max, 1
	case 3:
		r.Limit, r.Units = engine.Max, engine.Max-1
	default:
		r.Units = 1 + int32(d.pick("units", 3))
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
	// The engine's wall clock runs, stands still, or was set back.
	micros := []uint64{0, d.ticket, d.ticket + 5, 1}[d.pick("clock", 4)]
	client := fmt.Sprint(d.pick("client", 4))
	before := fmt.Sprint(d.line)
	got, notes, err := d.line.Join(d.now, micros, client, r)
	want, expect, wantErr := d.model.join(d.now, micros, client, r)
	if !errors.Is(err, wantErr) {
		d.fail("Join says %v, want %v", err, wantErr)
	}
	if err != nil {
		if after := fmt.Sprint(d.line); after != before || len(notes) > 0 {
			d.fail("a refused Join changed %s into %s and told %v", before, after, notes)
		}
		return
	}
	if old := d.best[r.ID]; old == engine.Unknown && got.State != engine.Gone {
		if got.Ticket <= d.ticket || got.Ticket < micros {
			d.fail("ticket %d follows %d, with the clock at %d", got.Ticket, d.ticket, micros)
		}
		d.ticket = got.Ticket
	}
	d.reply("Join", got, want, notes, expect)
	if r.NoWait && got.State == engine.Gone && d.model.find(d.now, r.ID) == nil {
		for _, p := range d.line.Places {
			if p.ID == r.ID {
				d.fail("a refused claim that does not wait is in line")
			}
		}
	}
}

// reply compares a reply with the model's and checks what must hold of all
// replies of a claim taken together, whatever the model thinks.
func (d *driver) reply(op string, got, want engine.Claim, notes []line.Note, expect []note) {
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.ID != want.ID {
		d.fail("%s says\n%+v, want\n%+v", op, got, want)
	}
	d.rises(op, got)
	if got.State == engine.Waiting || got.State == engine.Held {
		if end := d.now + got.TTL; end < d.ends[got.ID] {
			d.fail("%s moves a deadline from %v to %v", op, d.ends[got.ID], end)
		} else {
			d.ends[got.ID] = end
		}
	}
	d.notes(op, notes, expect, got.ID)
}

func (d *driver) rises(op string, c engine.Claim) {
	if c.State < d.best[c.ID] {
		d.fail("%s says %v of a claim that was %v", op, c.State, d.best[c.ID])
	}
	d.best[c.ID] = c.State
}

// notes compares what is sent with what must be sent, as sets without
// repetition, and never to the subject.
func (d *driver) notes(op string, got []line.Note, want []note, subject engine.ID) {
	left := map[note]int{}
	for _, n := range want {
		left[n]++
	}
	for _, n := range got {
		c := n.Claim
		short := note{n.Client, c.ID, c.State, c.Contended && c.State == engine.Held, c.Evicted}
		if left[short]--; left[short] < 0 {
			d.fail("%s tells %+v, which it should not; want %+v", op, n, want)
		}
		if c.ID == subject && subject != (engine.ID{}) {
			d.fail("%s tells its own claim %+v", op, c)
		}
		if c.Name != lockName || c.Ticket == 0 {
			d.fail("%s sends an incomplete note: %+v", op, c)
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

// compare checks the whole line against the one rule, and inspection of it.
func (d *driver) compare() {
	sum, waiting := int64(0), false
	for i, p := range d.line.Places {
		if p.Deadline <= d.now {
			continue // refused calls leave what has expired for the next
		}
		sum += int64(p.Units)
		if i > 0 && p.Ticket <= d.line.Places[i-1].Ticket {
			d.fail("ticket %d stands behind %d", p.Ticket, d.line.Places[i-1].Ticket)
		}
		if p.Held && sum > int64(d.line.Limit) {
			d.fail("%d units are held, the limit is %d", sum, d.line.Limit)
		}
		if p.Held && waiting {
			d.fail("a claim holds behind one that waits")
		}
		waiting = waiting || !p.Held
	}
	view := d.line.View(d.now, lockName)
	alive := d.model.alive(d.now)
	if len(view.Claims) != len(alive) {
		d.fail("%d claims are shown, want %d", len(view.Claims), len(alive))
	}
	for i, c := range view.Claims {
		m := alive[i]
		state := engine.Waiting
		if m.known { // a read decides nothing: only what a call has settled
			state = engine.Held
		}
		contended := false
		for _, behind := range alive[i+1:] {
			contended = contended || !behind.known
		}
		want := engine.Claim{
			Name: lockName, Ticket: m.ticket, Units: m.units, Limit: m.limit,
			State: state, Contended: contended, Evicted: m.marked, TTL: m.deadline - d.now,
		}
		if fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", want) || c.ID != want.ID {
			d.fail("place %d is shown as\n%+v, want\n%+v", i, c, want)
		}
	}
	if d.line.Empty(d.now) != (len(alive) == 0) {
		d.fail("Empty says %v of %d claims", d.line.Empty(d.now), len(alive))
	}
}
