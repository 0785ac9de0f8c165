package etcdlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
)

// claim is one of this client's, from before its Join is sent until it has left or is
// reported gone: what the machine knows of it, and what is under way. Its Queue is the
// name, its Session the etcd lease that its key hangs on, of a detached one its own, or is
// to be made with.
type claim struct {
	session.Claim
	key   string // no other claim's, as long as this one is known
	slot  int    // in key
	value string // of key
	ttl   time.Duration
	class *class // which it uses

	// Under the table's mutex.
	recorded  bool   // its notification is in etcd: its holder heard that somebody waits
	early     string // a notification that came before the answer to its Join
	attended  context.CancelFunc
	givenUp   bool  // a Leave is under way
	alone     bool  // nobody else was in its queue when it joined
	written   int64 // the revision at which it was attached to another lease, in the life writtenIn: see term.go
	writtenIn uint64
	asked     time.Duration // detached: when its owner asked for it last, or it was seen to stand
}

func (c *claim) lease() clientv3.LeaseID { return clientv3.LeaseID(c.Session) }

// node is the claim in the life that is known.
func (c *claim) node() session.Node { return session.Node{Key: c.key, Ticket: c.Ticket} }

// table is what this client has in the queue.
type table struct {
	mu      sync.Mutex
	m       session.Machine[*claim]
	keyed   map[string]*claim // by key
	slots   map[string]*slots // by what their keys have in common
	vacant  map[string]bool   // names that a claim left which had been alone in its queue
	tidying bool              // somebody tidies up what is indeterminate
}

// start has the table empty. over is told of the class of each claim that is forgotten.
func (t *table) start(notify func(engine.Claim), over func(*class)) {
	t.m.Start()
	t.m.Notify, t.m.PollAfter = notify, func(*claim) {}
	t.m.Over = func(c *claim) {
		c.unattend()
		delete(t.keyed, c.key)
		if s := t.slots[c.alike()]; s.release(c.slot) {
			delete(t.slots, c.alike())
		}
		over(c.class)
	}
	t.keyed, t.slots, t.vacant = map[string]*claim{}, map[string]*slots{}, map[string]bool{}
}

// expect records a claim that is about to join: what is heard of it must find it.
func (t *table) expect(k keys, client string, r *engine.Request, ttl time.Duration, class *class, highWater uint64) (c *claim, made bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.m.Claims[r.ID]; c != nil {
		return c, false
	}
	c = &claim{
		Claim: session.Claim{Request: *r, Queue: r.Name, Floor: highWater},
		value: value(r.ID, r.Owner.Text()), ttl: ttl, class: class,
	}
	s := t.slots[c.alike()]
	if s == nil {
		s = &slots{}
		t.slots[c.alike()] = s
	}
	c.slot = s.take()
	c.key = k.claim(r.Name, r.Limit, r.Permits, client, c.slot)
	t.keyed[c.key] = c
	t.m.Begin(c)
	return c, true
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

// maxVacant bounds how many names are remembered: a Join of another costs a little more.
const maxVacant = 4096

// vacate remembers that a claim has left, which may have been alone in its queue.
func (t *table) vacate(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !c.alone {
		return
	}
	if len(t.vacant) >= maxVacant {
		clear(t.vacant)
	}
	t.vacant[c.Name] = true
}

// occupy reports whether the queue of a claim is likely to be vacant, once.
func (t *table) occupy(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	vacant := t.vacant[c.Name]
	delete(t.vacant, c.Name)
	return vacant
}

// joined notes whether a claim was alone in its queue.
func (t *table) joined(c *claim, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.alone = alone
}

// classes is of how many classes claims stand in the queue that nobody gives up.
func (t *table) classes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := map[*class]bool{}
	for _, c := range t.m.Claims {
		if c.Phase.Stands() && !c.givenUp {
			of[c.class] = true
		}
	}
	return len(of)
}

// alike is the same for claims whose keys differ in their slots alone.
func (c *claim) alike() string { return fmt.Sprint(c.Limit, " ", c.Permits, " ", c.Name) }

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
	return t.m.Claims[id]
}

// known is get of a claim whose key is known too, with the mutex held. That of a detached one is
// not until it was seen to stand: its owner may have gone on by another client, and made it there.
func (t *table) known(name string, id engine.ID) *claim {
	c := t.m.Claims[id]
	if c == nil || c.Name != name || c.Detached && !c.Phase.Stands() {
		return nil
	}
	return c
}

// doubtful: a Join of the claim was not answered.
func (t *table) indeterminate(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.Indeterminate = true
}

// unattend ends the goroutine that waits for the claim's turn.
func (c *claim) unattend() {
	if c.attended != nil {
		c.attended()
		c.attended = nil
	}
}

// promote takes in a queue in which the claim may stand, and reports whether it does.
func (t *table) promote(c *claim, l line) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := l.at(c)
	if i < 0 || l.places[i].ticket <= c.Floor { // what has its key then is from before it: see past
		return false
	}
	p := &l.places[i]
	t.m.Made(c, c.key, int64(p.lease), 0)
	t.m.Take(c) // what is due is read here
	c.Session = int64(p.lease)
	v := session.View{Ticket: p.ticket, Marked: p.revoked, Held: i < l.held, Contended: l.contended(), Ahead: l.blockers(i)}
	if len(v.Ahead) > maxWatched {
		v.Ahead = nil // too many to look at one by one
	}
	if t.m.Read(c, v); c.Phase != session.Waiting {
		c.unattend()
	}
	return true
}

// report is what a reply says of a claim that promote found, or did not.
func (t *table) report(c *claim, stands bool) engine.Claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	got := t.m.Report(c)
	c.asked = boottime.Now()
	if !stands {
		got = engine.Claim{Name: c.Name, ID: c.ID, State: engine.Gone, Revoked: c.Phase == session.Marked}
	} else if got.State != engine.Gone {
		got.TTL = c.ttl
	}
	return got
}

// lookedAt is a queue as who knows only the ID of a claim sees it: another client's.
func lookedAt(name string, id engine.ID, l line) engine.Claim {
	got := engine.Claim{Name: name, ID: id, State: engine.Gone}
	i := l.with(id)
	if i < 0 {
		return got
	}
	p := &l.places[i]
	got.Ticket, got.Permits, got.Limit = p.ticket, p.permits, p.limit
	switch {
	case p.revoked:
		got.Revoked = true
	case i < l.held:
		got.State, got.Contended = engine.Held, l.contended()
	default:
		got.State = engine.Waiting
	}
	return got
}
