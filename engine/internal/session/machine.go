package session

import (
	"maps"
	"slices"

	"leasehold/engine"
)

// Machine is the claims of one client, each a C, which embeds [Claim]. It knows no
// mutex: its engine has one.
type Machine[C interface {
	comparable
	State() *Claim
}] struct {
	Notify    func(engine.Claim) // has Watch say it
	PollAfter func(C)            // has it looked at what is due, soon
	Over      func(C)            // is told of each claim that is forgotten

	Claims        map[engine.ID]C
	Indeterminate int // how many of them are

	keys   map[string]C // of those that stand, by their own keys
	ahead  set[C]       // those that wait, by what they wait for
	queues set[C]       // those that hold, by their queue
}

// set is claims by some key.
type set[C comparable] map[string]map[C]struct{}

func (s set[C]) add(key string, c C) {
	if s[key] == nil {
		s[key] = map[C]struct{}{}
	}
	s[key][c] = struct{}{}
}

func (s set[C]) remove(key string, c C) {
	if delete(s[key], c); len(s[key]) == 0 {
		delete(s, key)
	}
}

// Start has the machine know nothing.
func (m *Machine[C]) Start() {
	m.Claims, m.keys, m.ahead, m.queues = map[engine.ID]C{}, map[string]C{}, set[C]{}, set[C]{}
}

// Begin enters a claim whose node is going to be made.
func (m *Machine[C]) Begin(c C) { m.Claims[c.State().ID] = c }

// By is the claim that has that key, if it is one of this client's.
func (m *Machine[C]) By(key string) (c C, ok bool) {
	c, ok = m.keys[key]
	return c, ok
}

// Made: the node of a claim stands. It reports whether that is to be removed: nobody
// wants it any more. Session and ticket are 0 where the answer did not say them; then
// they are read.
func (m *Machine[C]) Made(c C, key string, session int64, ticket uint64) (remove bool) {
	s := c.State()
	if s.Phase != Making && s.Phase != Unwanted {
		return false
	}
	s.Key, s.Session, s.Ticket = key, session, ticket
	s.Due = Queue
	if session == 0 {
		s.Due |= Own
	}
	m.keys[key] = c
	if s.Phase == Unwanted {
		s.Phase = Leaving
		return true
	}
	s.Phase = Placed
	m.queues.add(s.Queue, c)
	return false
}

// NotMade: there is no node of a claim, and never will be.
func (m *Machine[C]) NotMade(c C) {
	if s := c.State(); s.Phase == Making || s.Phase == Unwanted {
		m.drop(c, Gone)
	}
}

// View is a queue as it was read, as far as it concerns one claim.
type View struct {
	Ticket    uint64 // of what has its key; 0: the store has no lives
	Marked    bool
	Held      bool
	Contended bool
	Wakes     bool   // Held: who waits behind it waits for it to hold
	Ahead     []Node // not Held: what must change before it can hold
	Again     bool   // not Held: only what is read behind the watches on those counts
	Version   int64  // of the queue: the last change of its nodes; 0: not known
	Watched   bool   // whatever changes from then on is told
}

// Read takes in the queue of a claim, in which it stands. Queues may be read in one order
// and arrive in another: a claim that holds goes on, since what stands before it can only
// go.
func (m *Machine[C]) Read(c C, v View) {
	s := c.State()
	if !s.Phase.Wanted() && !(s.Phase == Marked && v.Ticket > s.Ticket) {
		return
	}
	if v.Ticket != 0 && v.Ticket != s.Ticket { // its first life that is known, or the next
		s.Ticket, s.Floor, s.Phase, s.notified, s.Contended = v.Ticket, v.Ticket-1, Placed, nothing, false
	}
	switch {
	case v.Marked:
		m.mark(c)
	case v.Held || s.Phase.Holds():
		m.holds(c, v)
	default:
		s.Phase = Waiting
		m.waits(c, v)
	}
}

func (m *Machine[C]) holds(c C, v View) {
	s := c.State()
	if !s.Phase.Holds() {
		m.unwait(c)
		s.Phase, s.since = Held, v.Version
		if v.Wakes {
			s.Due |= Wake
		}
	}
	switch {
	case v.Contended:
		s.Contended = true
	case s.exclusive() && s.since != 0 && s.since != v.Version:
		// It was alone, so somebody came, and is gone again.
		s.Contended = true
	case s.Due&Queue == 0: // else somebody came after this was read, and was told of
		s.Contended = false
	}
	if v.Watched {
		s.since = 0
	}
}

// waits: what it waits for that is not watched yet is to be (see Watches).
func (m *Machine[C]) waits(c C, v View) {
	s := c.State()
	if slices.Equal(s.Ahead, v.Ahead) {
		return
	}
	m.unwait(c)
	s.Ahead = v.Ahead
	for _, n := range s.Ahead {
		m.ahead.add(n.Key, c)
	}
	if v.Again {
		s.Due |= Queue
	}
}

// unwait: what it waited for does not matter to it any more.
func (m *Machine[C]) unwait(c C) {
	s := c.State()
	for _, n := range s.Ahead {
		m.ahead.remove(n.Key, c)
	}
	s.Ahead = nil
}

// Listening is how many nodes claims listen to.
func (m *Machine[C]) Listening() int { return len(m.keys) + len(m.ahead) + len(m.queues) }

// ReadOwn takes in a claim's own node, read with a watch or behind one: whose it is and whether it is marked. now is the
// session that is alive, 0 if none is: the client may have begun a new one by itself, and
// that inherits nothing.
func (m *Machine[C]) ReadOwn(c C, session int64, ticket uint64, marked bool, now int64) {
	s := c.State()
	if !s.Phase.Stands() {
		return // whoever removes it goes by what was known then
	}
	s.Session, s.Ticket, s.listens = session, ticket, true
	switch {
	case now != 0 && session != now:
		m.end(c, Gone)
	case marked:
		m.mark(c)
	}
}

// mark: somebody revoked a claim, which stands until it is left.
func (m *Machine[C]) mark(c C) {
	if s := c.State(); s.Phase.Wanted() {
		s.Phase = Marked
		m.unwait(c)
		m.Notify(s.report())
	}
}

// Revoke: somebody ended a claim, in that life of it: it is marked.
func (m *Machine[C]) Revoke(c C, ticket uint64) {
	if c.State().Ticket == ticket {
		m.mark(c)
	}
}

// Contend: somebody waits behind a claim, in that life of it.
func (m *Machine[C]) Contend(c C, ticket uint64) {
	if s := c.State(); s.Ticket == ticket {
		s.Contended = true
		m.News(c)
	}
}

// Vanished: a claim was looked for where it should stand, by its session, and is not
// there. now is the session that is alive: if it is the claim's, somebody removed it.
func (m *Machine[C]) Vanished(c C, now int64) {
	if s := c.State(); s.Session != 0 && s.Session == now {
		m.end(c, Revoked)
	} else {
		m.end(c, Gone)
	}
}

// Lost: a claim is gone, for a reason that is not known.
func (m *Machine[C]) Lost(c C) { m.end(c, Gone) }

// end ends a claim that stood in the queue, and tells its client.
func (m *Machine[C]) end(c C, how Phase) {
	s := c.State()
	if !s.Phase.Stands() {
		return // its client knows
	}
	marked := s.Phase == Marked
	m.drop(c, how)
	if r := s.report(); !marked {
		r.Revoked = how == Revoked
		m.Notify(r)
	}
}

// drop: a claim does not stand. What may come to stand yet is kept in mind.
func (m *Machine[C]) drop(c C, how Phase) {
	if s := c.State(); s.Indeterminate && s.Phase < Gone {
		m.indeterminate(c)
		return
	}
	m.forget(c, how)
}

func (m *Machine[C]) indeterminate(c C) {
	if s := c.State(); s.Phase < Indeterminate {
		m.retire(c)
		s.Phase = Indeterminate
		m.Indeterminate++
	}
}

// forget: a claim has no node any more.
func (m *Machine[C]) forget(c C, how Phase) {
	s := c.State()
	if s.Phase >= Gone {
		return
	}
	if m.retire(c); s.Phase == Indeterminate {
		m.Indeterminate--
	}
	s.Phase = how
	if s.Key != "" && m.keys[s.Key] == c {
		delete(m.keys, s.Key)
	}
	if m.Claims[s.ID] == c {
		delete(m.Claims, s.ID)
	}
	if m.Over != nil {
		m.Over(c)
	}
}

// retire: nothing is listened for any more.
func (m *Machine[C]) retire(c C) {
	m.unwait(c)
	m.queues.remove(c.State().Queue, c)
}

// Ended: a session has ended, and with it all that stood by it. What is being made may
// become the next one's: its node says.
func (m *Machine[C]) Ended(session int64) {
	for _, c := range m.Claims {
		s := c.State()
		if s.Session != session && s.Session != 0 {
			continue
		}
		s.Indeterminate = s.Indeterminate && s.Phase == Making // nothing of that session arrives any more
		if m.end(c, Gone); s.Phase == Indeterminate {
			m.forget(c, Gone)
		}
	}
}

// Resumed: changes may not have been told. Every queue is to be read again.
func (m *Machine[C]) Resumed() {
	for _, c := range m.Claims {
		c.State().Due |= Queue
	}
}

// Event is what a store tells of a node that was watched.
type Event uint8

const (
	Removed Event = iota
	Written
	Listed // a node came below it, or went
)

// Changed takes in an event. The watch that told is used up.
func (m *Machine[C]) Changed(key string, what Event) {
	if c, ok := m.keys[key]; ok && what != Listed {
		if s := c.State(); what == Removed {
			m.end(c, Revoked)
		} else if s.Phase.Stands() {
			s.Due |= Own
			m.PollAfter(c)
		}
	}
	m.awaken(key, true)
	if what != Listed {
		return
	}
	for c := range m.queues[key] {
		s := c.State()
		if !s.Phase.Holds() || s.Contended {
			continue
		}
		if s.Due |= Queue; !s.exclusive() {
			m.PollAfter(c) // another holder may have come, or gone
			continue
		}
		// It was alone, so somebody came. Who does not wait may be gone again
		// before the queue could be read, and is to be told of as well.
		s.Contended = true
		m.News(c)
	}
}

// Deaf: a watch may not stand, and whoever relies on it is to look: now, or with its next
// renewal, where the store refuses the watch and would again.
func (m *Machine[C]) Deaf(key string, children, now bool) {
	m.awaken(key, now)
	if !children {
		if c, ok := m.keys[key]; ok {
			c.State().Due |= Own
		}
		return
	}
	for c := range m.queues[key] {
		s := c.State()
		if !s.Phase.Holds() {
			continue
		}
		if s.Due |= Queue; now {
			m.PollAfter(c)
		}
	}
}

// awaken has those look who wait for a change of a node.
func (m *Machine[C]) awaken(key string, now bool) {
	for _, c := range slices.Collect(maps.Keys(m.ahead[key])) {
		m.unwait(c)
		if c.State().Due |= Queue; now {
			m.PollAfter(c)
		}
	}
}

// Settle: a claim has held, or waited, for so long that it is to hear of what happens to
// it. It reports whether something is due. That another claim watches its node is not
// enough: what came before that watch was heard by nobody.
func (m *Machine[C]) Settle(c C) bool {
	s := c.State()
	if !s.Phase.Wanted() || s.Phase == Settled {
		return false
	}
	if s.Phase == Held {
		s.Phase = Settled
		if !s.Contended { // else there is nothing to hear
			s.Due |= Queue
		}
	}
	if !s.listens {
		s.Due |= Own
	}
	return s.Due&(Queue|Own) != 0
}

// Take is what is due for a claim, which whoever takes it does: what comes after that
// is due once more. Nothing is, unless it is wanted.
func (m *Machine[C]) Take(c C) Due {
	s := c.State()
	if !s.Phase.Wanted() {
		return 0
	}
	due := s.Due
	if due&(Queue|Own) != 0 {
		due &^= Wake // what is read may make it needless, or the claim gone
	}
	s.Due &^= due
	return due
}

// Owe: what was taken could not be done.
func (m *Machine[C]) Owe(c C, due Due) { c.State().Due |= due }

// News tells what is new of a claim that holds.
func (m *Machine[C]) News(c C) {
	if s := c.State(); s.news() > s.notified {
		s.notified = s.news()
		m.Notify(s.report())
	}
}

// Report is what the owner of a claim is told in a reply, and knows from then on.
func (m *Machine[C]) Report(c C) engine.Claim {
	s := c.State()
	s.notified = s.news()
	return s.report()
}

// Found is Report of one that is about to be left.
func (m *Machine[C]) Found(c C) engine.Claim { return c.State().report() }

// Leave gives a claim up. first: nobody had; remove: its node is to be removed, now.
func (m *Machine[C]) Leave(c C) (first, remove bool) {
	s := c.State()
	switch {
	case s.Phase == Making:
		s.Phase = Unwanted
		return true, false
	case s.Phase.Stands():
		m.retire(c)
		s.Phase = Leaving
		return true, true
	}
	return false, false
}

// Left: the node of a claim has been removed, by whomever.
func (m *Machine[C]) Left(c C) { m.drop(c, Gone) }

// Abandon: whether the node of a claim that was given up has gone is not known.
func (m *Machine[C]) Abandon(c C) {
	m.indeterminate(c)
}

// Tidied: what is indeterminate does not stand, and never will.
func (m *Machine[C]) Tidied(c C) {
	if c.State().Phase == Indeterminate {
		m.forget(c, Gone)
	}
}
