package etcdlock

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
)

// claim is one of this client's, from before its Join is sent until it has left
// or is reported gone.
type claim struct {
	name     string
	id       engine.ID
	key      string
	units    int32
	limit    int32
	detached bool

	// Under the table's mutex.
	ticket   uint64           // 0: its Join was not answered
	lease    clientv3.LeaseID // that its key hangs on; of a detached one, its own
	state    engine.State
	evicted  bool
	told     bool     // its holder heard that somebody waits; its note is in etcd
	blockers []string // Waiting: see order.Blockers. Nil: too many to look at one by one
	attended context.CancelFunc
	doubt    bool // a Join of it was not answered, and may arrive yet
	left     bool // given up, and to be tidied up
}

// table is what this client has in line.
type table struct {
	mu      sync.Mutex
	known   map[engine.ID]*claim
	left    int  // how many of those are to be tidied up
	tidying bool // somebody does
}

// expect notes a claim that is about to join: what is heard of it must find it.
func (t *table) expect(k keys, client string, r *engine.Request) *claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.known[r.ID]
	if c == nil {
		c = &claim{
			name: r.Name, id: r.ID, key: k.claim(r.Name, r.Limit, r.Units, client, r.ID),
			units: r.Units, limit: r.Limit, detached: r.Detached,
		}
		t.known[r.ID] = c
	}
	return c
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
func (t *table) doubtful(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.doubt = true
}

// unattend ends the goroutine that waits for the claim's turn.
func (c *claim) unattend() {
	if c.attended != nil {
		c.attended()
		c.attended = nil
	}
}

// settle takes in a line in which the claim may stand, and returns what it is
// there, and whether it became held. Lines may be read in one order and arrive
// in another: what is known to be held stays so, which is true of every claim.
func (t *table) settle(c *claim, l line) (now engine.Claim, became bool) {
	i := l.find(c.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	now = engine.Claim{Name: c.name, ID: c.id, State: engine.Gone, Evicted: c.evicted}
	if i < 0 {
		c.state = engine.Gone
		c.unattend()
		return now, false
	}
	p := &l[i]
	held := l.held()
	now.Ticket, now.Units, now.Limit = p.ticket, p.units, p.limit
	c.lease = p.lease
	if p.evicted {
		c.evicted, c.state, now.Evicted = true, engine.Gone, true
		c.unattend()
		return now, false
	}
	if c.ticket != p.ticket { // its first life, or the next: see rule 5 of package engine
		c.ticket, c.state, c.evicted, now.Evicted = p.ticket, engine.Waiting, false, false
	}
	if i < held || c.state == engine.Held {
		became = c.state != engine.Held
		c.state, c.blockers = engine.Held, nil
		now.State, now.Contended = engine.Held, held < len(l)
		c.unattend()
		return now, became
	}
	c.state, now.State = engine.Waiting, engine.Waiting
	if c.blockers = l.blockers(i); len(c.blockers) > maxWatched {
		c.blockers = nil
	}
	return now, false
}
