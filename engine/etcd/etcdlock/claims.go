package etcdlock

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
)

// claim is one of this client's, from before its Join is sent until it has left
// or is reported gone.
type claim struct {
	name     string
	id       engine.ID
	key      string // no other claim's, as long as this one is known
	slot     int    // in key
	value    string // of key
	permits  int32
	limit    int32
	detached bool

	// Under the table's mutex.
	ticket        uint64           // 0: its Join was not answered
	highWater     uint64           // its ticket is above: see past
	lease         clientv3.LeaseID // that its key hangs on; of a detached one, its own
	state         engine.State
	revoked       bool
	notified      bool    // its holder heard that somebody waits; its notification is in etcd
	early         string  // a notification that came before the answer to its Join
	blockers      []place // Waiting: see order.Blockers. Nil: too many to look at one by one
	attended      context.CancelFunc
	indeterminate bool // a Join of it was not answered, and may arrive yet
	left          bool // given up, and to be tidied up
}

// table is what this client has in the queue.
type table struct {
	mu      sync.Mutex
	known   map[engine.ID]*claim
	keyed   map[string]*claim // the same, by key
	slots   map[string]*slots // by what their keys have in common
	left    int               // how many of those are to be tidied up
	tidying bool              // somebody does
}

// expect records a claim that is about to join: what is heard of it must find it.
func (t *table) expect(k keys, client string, r *engine.Request, highWater uint64) *claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.known[r.ID]
	if c == nil {
		c = &claim{
			name: r.Name, id: r.ID, value: value(r.ID, r.Owner.Text()),
			permits: r.Permits, limit: r.Limit, detached: r.Detached, highWater: highWater,
		}
		s := t.slots[c.alike()]
		if s == nil {
			s = &slots{}
			t.slots[c.alike()] = s
		}
		c.slot = s.take()
		c.key = k.claim(r.Name, r.Limit, r.Permits, client, c.slot)
		t.known[r.ID], t.keyed[c.key] = c, c
	}
	return c
}

// remove forgets a claim. With mu held.
func (t *table) remove(c *claim) {
	delete(t.known, c.id)
	delete(t.keyed, c.key)
	if s := t.slots[c.alike()]; s.release(c.slot) {
		delete(t.slots, c.alike())
	}
	if c.left {
		t.left--
	}
}

// crowd is how many of its claims for a name make a client share what it reads.
const crowd = 16

// crowded reports whether the claim has so many beside it.
func (t *table) crowded(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.slots[c.alike()]
	return s != nil && s.used-len(s.free) > crowd
}

// alike is the same for claims whose keys differ in their slots alone.
func (c *claim) alike() string { return fmt.Sprint(c.limit, " ", c.permits, " ", c.name) }

// slots are numbers from zero on, each used by one claim at a time.
type slots struct {
	used int // how many were ever used
	free []int
}

func (s *slots) take() int {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	s.used++
	return s.used - 1
}

// release reports whether no slot is used any more.
func (s *slots) release(slot int) (unused bool) {
	s.free = append(s.free, slot)
	return len(s.free) == s.used
}

// get is the claim with that ID, or nil: it is another client's, or gone.
func (t *table) get(id engine.ID) *claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[id]
}

func (t *table) forget(id engine.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.known[id]; c != nil {
		c.unattend()
		t.remove(c)
	}
}

// doubtful: a Join of the claim was not answered.
func (t *table) indeterminate(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.indeterminate = true
}

// unattend ends the goroutine that waits for the claim's turn.
func (c *claim) unattend() {
	if c.attended != nil {
		c.attended()
		c.attended = nil
	}
}

// promote takes in a queue in which the claim may stand, and returns what it is
// there, and whether it became held. Queues may be read in one order and arrive
// in another: what is known to be held stays so, which is true of every claim.
func (t *table) promote(c *claim, l line) (now engine.Claim, became bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := l.at(c, c.ticket)
	now = engine.Claim{Name: c.name, ID: c.id, State: engine.Gone, Revoked: c.revoked}
	if i < 0 || l.places[i].ticket <= c.highWater { // what has its key then is from before it: see past
		c.state = engine.Gone
		c.unattend()
		return now, false
	}
	p := &l.places[i]
	now.Ticket, now.Permits, now.Limit = p.ticket, p.permits, p.limit
	c.lease = p.lease
	if p.revoked {
		c.revoked, c.state, now.Revoked = true, engine.Gone, true
		c.unattend()
		return now, false
	}
	if c.ticket != p.ticket { // its first life, or the next: see rule 5 of package engine
		c.ticket, c.highWater, c.state, c.revoked, now.Revoked = p.ticket, p.ticket-1, engine.Waiting, false, false
	}
	if i < l.held || c.state == engine.Held {
		became = c.state != engine.Held
		c.state, c.blockers = engine.Held, nil
		now.State, now.Contended = engine.Held, l.contended()
		c.unattend()
		return now, became
	}
	c.state, now.State = engine.Waiting, engine.Waiting
	if c.blockers = l.blockers(i); len(c.blockers) > maxWatched {
		c.blockers = nil
	}
	return now, false
}
