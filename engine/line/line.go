package line

import (
	"cmp"
	"slices"
	"time"

	"leasehold/engine"
)

// Line is the line of one name. The zero value is a line nobody ever joined.
// The fields are exported for engines to store; only this package's methods
// may change them.
type Line struct {
	Last   uint64  // the highest ticket ever given out
	Limit  int32   // of the claims in Places; meaningless when there are none
	Places []Place // in order; the held ones are a prefix
}

// Place is one claim as the line remembers it.
type Place struct {
	ID       engine.ID
	Ticket   uint64
	Client   string        // whom to tell; chosen by the engine, opaque here
	Owner    string        // who made it, for people: see [engine.Owner.Text]
	Deadline time.Duration // by the engine's clock
	Units    int32
	Held     bool
	Detached bool
	Evicted  bool // marked: held until its holder leaves or its deadline passes

	// Told: the holder knows that somebody waits (or was refused). It keeps
	// one holder from being told of every single arrival.
	Told bool
}

// Note tells a client of a change of one of its claims.
type Note struct {
	Client string
	Claim  engine.Claim
}

// Join takes a place at the end, or finds the one that r.ID already has.
// micros is the engine's wall clock in microseconds; it seeds tickets, so that
// they rise even over an engine that forgot the line. The request has passed
// [engine.Request.Check].
func (l *Line) Join(now time.Duration, micros uint64, client string, r engine.Request) (engine.Claim, []Note, error) {
	if i := l.find(now, r.ID); i >= 0 {
		// A retry of a Join whose answer was lost. What it replaced is gone
		// since the first arrival.
		p := &l.Places[i]
		if !p.Evicted {
			p.extend(now, r.WaitTTL)
		}
		notes := l.settle(now, r.Name, r.ID)
		return l.reply(now, r.Name, r.ID), notes, nil
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
	if others >= engine.MaxLine {
		return engine.Claim{}, nil, engine.Refuse("%d claims are in line already, which is the most", others)
	}
	ticket := max(l.Last+1, micros)
	if ticket > engine.MaxTicket {
		return engine.Claim{}, nil, engine.Refuse("ticket %d is above %d: the engine's clock is wrong", ticket, uint64(engine.MaxTicket))
	}

	if r.Replaces != (engine.ID{}) {
		l.remove(func(p *Place) bool { return p.ID == r.Replaces })
	}
	var notes []Note
	if r.NoWait {
		notes = l.settle(now, r.Name, r.ID)
		if !l.fits(r.Units, r.Limit) {
			notes = l.tellHolders(r.Name, notes)
			return engine.Claim{Name: r.Name, ID: r.ID, Units: r.Units, Limit: r.Limit, State: engine.Gone}, notes, nil
		}
	}
	l.Last, l.Limit = ticket, r.Limit
	l.Places = append(l.Places, Place{
		ID: r.ID, Ticket: ticket, Client: client, Owner: r.Owner.Text(), Units: r.Units,
		Deadline: now + r.WaitTTL, Detached: r.Detached,
	})
	notes = append(notes, l.settle(now, r.Name, r.ID)...)
	if !l.Places[len(l.Places)-1].Held {
		notes = l.tellHolders(r.Name, notes)
	}
	return l.reply(now, r.Name, r.ID), notes, nil
}

// Renew extends one claim and says what it is now.
func (l *Line) Renew(now time.Duration, r engine.Renewal) (engine.Claim, []Note) {
	i := l.find(now, r.ID)
	if i >= 0 && !l.Places[i].Evicted {
		l.Places[i].extend(now, r.Want)
	}
	notes := l.settle(now, r.Name, r.ID)
	return l.reply(now, r.Name, r.ID), notes
}

// Leave removes one claim and says in which state it was found.
func (l *Line) Leave(now time.Duration, name string, id engine.ID) (engine.Claim, []Note) {
	found := engine.Claim{Name: name, ID: id, State: engine.Gone}
	if i := l.find(now, id); i >= 0 {
		// As it was before this call: settling first could only turn a claim
		// nobody was told of into a held one, for nothing.
		found = l.claim(now, name, i)
		found.TTL, found.Look = 0, 0
	}
	l.remove(func(p *Place) bool { return p.ID == id })
	return found, l.settle(now, name, id)
}

// Evict ends the claim with that ticket: one that waits at once, one that
// holds by a mark, or at once too if immediately. Its client is told.
func (l *Line) Evict(now time.Duration, name string, ticket uint64, immediately bool) ([]Note, error) {
	notes := l.settle(now, name, engine.ID{})
	i := slices.IndexFunc(l.Places, func(p Place) bool { return p.Ticket == ticket })
	if i < 0 {
		return notes, engine.ErrNoClaim
	}
	p := &l.Places[i]
	p.Evicted = true
	notes = append(notes, Note{p.Client, l.claim(now, name, i)})
	if !p.Held || immediately {
		l.remove(func(p *Place) bool { return p.Ticket == ticket })
	}
	return append(notes, l.settle(now, name, engine.ID{})...), nil
}

// Depart removes the claims of clients that are gone, detached ones excepted.
func (l *Line) Depart(now time.Duration, name string, gone func(client string) bool) []Note {
	l.remove(func(p *Place) bool { return !p.Detached && gone(p.Client) })
	return l.settle(now, name, engine.ID{})
}

// View is the line for inspection, in order and without what has expired.
func (l *Line) View(now time.Duration, name string) engine.Line {
	v := engine.Line{Name: name}
	lastWaiter := -1 // nothing was settled: who stands last may have expired
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
		c.ID, c.Look, c.TTL = engine.ID{}, 0, l.Places[i].Deadline-now
		c.Owner = engine.ParseOwner(l.Places[i].Owner)
		if l.Places[i].Held {
			c.State = engine.Held // also if marked: it still takes its room
		}
		v.Claims = append(v.Claims, c)
		v.Limit = l.Limit
	}
	return v
}

// Empty reports whether nobody is in line.
func (l *Line) Empty(now time.Duration) bool {
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
func (p *Place) extend(now, want time.Duration) { p.Deadline = max(p.Deadline, now+want) }

// find is the index of a claim that has not expired, or -1. A claim past its
// deadline is gone for its owner even while its record stands (rule 5).
func (l *Line) find(now time.Duration, id engine.ID) int {
	for i := range l.Places {
		if p := &l.Places[i]; p.ID == id && !p.expired(now) {
			return i
		}
	}
	return -1
}

// remove works in place and by pointer: it runs over the whole line in every
// call, and slices.DeleteFunc would have each place escape to the heap.
func (l *Line) remove(which func(*Place) bool) {
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

// settle drops what has expired and lets the rule decide who holds. Everyone
// who became held is told, except subject, whose reply says it.
func (l *Line) settle(now time.Duration, name string, subject engine.ID) (notes []Note) {
	l.remove(func(p *Place) bool { return p.expired(now) })
	sum := int64(0)
	var became []int
	for i := range l.Places {
		p := &l.Places[i]
		if sum += int64(p.Units); sum > int64(l.Limit) {
			break
		}
		if !p.Held {
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
		p.Told = l.contended(i)
		c := l.claim(now, name, i)
		c.TTL, c.Look = 0, 0
		notes = append(notes, Note{p.Client, c})
	}
	return notes
}

// fits reports whether a claim joining now would be held at once.
func (l *Line) fits(units, limit int32) bool {
	sum := int64(units)
	for i := range l.Places {
		sum += int64(l.Places[i].Units)
	}
	return sum <= int64(limit)
}

// contended: somebody waits behind place i. Waiting places are a suffix, so
// the last one tells.
func (l *Line) contended(i int) bool {
	last := len(l.Places) - 1
	return i < last && !l.Places[last].Held
}

// tellHolders tells each holder once that it is contended.
func (l *Line) tellHolders(name string, notes []Note) []Note {
	for i := range l.Places {
		p := &l.Places[i]
		if !p.Held {
			break
		}
		if p.Told || p.Evicted {
			continue
		}
		p.Told = true
		notes = append(notes, Note{p.Client, engine.Claim{
			Name: name, ID: p.ID, Ticket: p.Ticket, Units: p.Units, Limit: l.Limit,
			State: engine.Held, Contended: true,
		}})
	}
	return notes
}

// reply is what a claim's owner is told; it settles what the owner knows.
func (l *Line) reply(now time.Duration, name string, id engine.ID) engine.Claim {
	i := l.find(now, id)
	if i < 0 {
		return engine.Claim{Name: name, ID: id, State: engine.Gone}
	}
	c := l.claim(now, name, i)
	l.Places[i].Told = c.Contended
	return c
}

func (l *Line) claim(now time.Duration, name string, i int) engine.Claim {
	p := &l.Places[i]
	c := engine.Claim{
		Name: name, ID: p.ID, Ticket: p.Ticket, Units: p.Units, Limit: l.Limit,
		State: engine.Waiting, Contended: l.contended(i), TTL: p.Deadline - now,
	}
	switch {
	case p.Evicted:
		c.State, c.Evicted, c.TTL = engine.Gone, true, 0
	case p.Held:
		c.State = engine.Held
	case i == 0 || l.Places[i-1].Held:
		c.Look = l.look(now, i)
	}
	return c
}

// look is how long until expiry alone lets the first waiter, at i, hold.
func (l *Line) look(now time.Duration, i int) time.Duration {
	sum := int64(l.Places[i].Units)
	ahead := slices.Clone(l.Places[:i])
	for _, p := range ahead {
		sum += int64(p.Units)
	}
	slices.SortFunc(ahead, func(a, b Place) int { return cmp.Compare(a.Deadline, b.Deadline) })
	for _, p := range ahead {
		if sum -= int64(p.Units); sum <= int64(l.Limit) {
			return p.Deadline - now
		}
	}
	return 0
}
