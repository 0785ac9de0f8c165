package session

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"leasehold/engine"
)

// A world is what machines live in: a store with sessions that keeps one queue, some
// clients, each a Machine with the claims of one process, and all that is under way
// between them. It moves only by steps, and a step is all that chance decides.

type setup struct {
	name    string
	claims  [][]want // by client
	faults  int      // how many answers, requests or events are lost, and sessions end
	leaves  int      // how often a claim is given up before it holds
	revokes int
	seen    int // states to look at
}

type want struct{ permits, limit int32 }

// node is a claim in the store.
type node struct {
	client, claim int
	session       int64
	key           string
	marked        bool
}

type world struct {
	*setup
	nodes   []node
	made    int   // nodes that ever were
	version int64 // of the queue
	clients []*client

	faults, leaves, revokes int
	broken                  string
}

type client struct {
	w       *world
	n       int
	m       Machine[*Claim]
	claims  []*Claim // in the order of asking
	session int64    // as the client knows it
	ended   bool     // and as the store does

	calls    []*call
	received []event
	stands   map[string]bool // watches in the store
	asked    map[string]bool // watches that the client asked for; true: answered
	looks    map[*Claim]bool
	looked   map[*Claim]bool // a look is under way

	notified map[*Claim]engine.Claim // last
	was      map[*Claim]bool         // it was within the limit, in the store
	ends     map[*Claim]bool         // somebody else ended it, or its session did
	ready    map[*Claim]bool         // it was settled
}

type event struct {
	key  string
	what Event
}

// call is one request of the store.
type call struct {
	do      string // make, find, read, own, watch, wake, remove
	c       *Claim
	key     string // watch: of what
	watched bool   // read: the queue's watch is asked for, or stands
	arrived bool

	// Its answer.
	there, marked bool
	session       int64
	view          View
}

const queue = "q"

func newWorld(s *setup) *world {
	w := &world{setup: s, faults: s.faults, leaves: s.leaves, revokes: s.revokes}
	for n := range s.claims {
		c := &client{w: w, n: n, session: int64(n + 1), stands: map[string]bool{}, asked: map[string]bool{}, looks: map[*Claim]bool{}, looked: map[*Claim]bool{},
			notified: map[*Claim]engine.Claim{}, was: map[*Claim]bool{}, ends: map[*Claim]bool{}, ready: map[*Claim]bool{}}
		c.m.Start()
		c.m.Notify, c.m.PollAfter = c.notify, func(cl *Claim) { c.looks[cl] = true }
		w.clients = append(w.clients, c)
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// held reports whether the node at i is within the limit.
func (w *world) held(i int) bool {
	sum := int64(0)
	for _, n := range w.nodes[:i+1] {
		sum += int64(w.want(n).permits)
	}
	return sum <= int64(w.want(w.nodes[i]).limit)
}

func (w *world) want(n node) want { return w.setup.claims[n.client][n.claim] }

func (c *client) name(cl *Claim) string {
	return fmt.Sprintf("%c%d", 'A'+c.n, slices.Index(c.claims, cl)+1)
}

func (c *client) key(cl *Claim) int {
	n := slices.Index(c.claims, cl)
	return slices.IndexFunc(c.w.nodes, func(o node) bool { return o.client == c.n && o.claim == n })
}

// told: what the owner of a claim hears must be so.
func (c *client) notify(got engine.Claim) {
	i := slices.IndexFunc(c.claims, func(cl *Claim) bool { return cl.ID == got.ID })
	cl := c.claims[i]
	switch last := c.notified[cl]; {
	case got.State == engine.Held && !c.was[cl]:
		c.w.fail("%s is told that it holds, and never did", c.name(cl))
	case last.State == got.State && last.Contended == got.Contended:
		c.w.fail("%s is told twice that it is %v", c.name(cl), got.State)
	case last.State == engine.Gone && got.State != engine.Gone:
		c.w.fail("%s is told that it is %v after it was gone", c.name(cl), got.State)
	case got.State == engine.Gone && !c.ends[cl]:
		c.w.fail("%s is told that it is gone, and nobody ended it", c.name(cl))
	}
	c.notified[cl] = got
}

// changed tells who watches in the store.
func (w *world) changed(key string, what Event) {
	if what != Written {
		w.version++
	}
	for i, n := range w.nodes {
		if w.held(i) && n.session != 0 {
			w.clients[n.client].was[w.clients[n.client].claims[n.claim]] = true
		}
	}
	for _, c := range w.clients {
		if c.ended {
			continue
		}
		if c.stands[key] {
			delete(c.stands, key)
			c.received = append(c.received, event{key, what})
		}
		if what != Written && c.stands[queue] {
			delete(c.stands, queue)
			c.received = append(c.received, event{queue, Listed})
		}
	}
}

// take away the node at i.
func (w *world) remove(i int) {
	key := w.nodes[i].key
	w.nodes = slices.Delete(w.nodes, i, i+1)
	w.changed(key, Removed)
}

// arrive has the store do what a call asks for.
func (c *client) arrive(q *call) {
	w := c.w
	q.arrived = true
	i := c.key(q.c)
	switch q.do {
	case "make":
		w.made++
		w.nodes = append(w.nodes, node{client: c.n, claim: slices.Index(c.claims, q.c), session: c.session, key: fmt.Sprint(c.name(q.c), ".", w.made)})
		w.changed("", Listed)
		i = c.key(q.c)
		fallthrough
	case "find":
		if q.there = i >= 0; q.there {
			q.key, q.session = w.nodes[i].key, w.nodes[i].session
		}
	case "own":
		if q.there = i >= 0; q.there {
			q.marked, q.session = w.nodes[i].marked, w.nodes[i].session
			c.stands[q.key] = c.stands[q.key] || q.watched
		}
	case "watch":
		if q.there = slices.ContainsFunc(w.nodes, func(n node) bool { return n.key == q.key }); q.there {
			c.stands[q.key] = true
		}
	case "wake":
		if i >= 0 {
			w.changed(w.nodes[i].key, Written)
		}
	case "remove":
		if i >= 0 {
			w.remove(i)
		}
	case "read":
		if q.watched {
			c.stands[queue] = true
		}
		if q.there = i >= 0; q.there {
			q.view = c.view(i)
		}
	}
}

// view is the queue as the claim at i sees it: it waits for the one before it, which, if
// it is counted, says when it comes to hold.
func (c *client) view(i int) View {
	w := c.w
	me := w.want(w.nodes[i])
	counted := me.permits != me.limit
	v := View{Held: w.held(i), Version: w.version}
	if v.Held {
		v.Contended = slices.ContainsFunc(w.nodes[i:], func(n node) bool { return !w.held(slices.Index(w.nodes, n)) })
		v.Wakes = counted && i+1 < len(w.nodes)
		return v
	}
	first := i
	for first > 0 && !w.held(first-1) {
		first--
	}
	v.Again = counted
	if v.Ahead = []Node{{Key: w.nodes[i-1].key}}; counted && first == i {
		v.Ahead = []Node{{Key: queue}}
	}
	return v
}

// answer hands an answer to the machine; an error if it was lost.
func (c *client) answer(q *call, lost bool) {
	c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == q })
	m, now := &c.m, c.session
	switch q.do {
	case "make", "find":
		switch {
		case lost:
			c.ask(&call{do: "find", c: q.c})
		case !q.there:
			m.NotMade(q.c)
		default:
			session := q.session
			if q.do == "find" {
				session = 0
			}
			if m.Made(q.c, q.key, session, 0) {
				c.ask(&call{do: "remove", c: q.c, key: q.key})
			}
			c.looks[q.c] = true // its Join does
		}
	case "remove":
		if lost {
			c.ask(&call{do: "remove", c: q.c, key: q.key})
			return
		}
		m.Left(q.c)
	case "wake":
		if lost {
			m.Owe(q.c, Wake)
		}
		c.look(q.c)
	case "own":
		switch {
		case lost:
			c.failed(q.key)
			m.Owe(q.c, Own)
		case q.there:
			if _, asked := c.asked[q.key]; asked && q.watched {
				c.asked[q.key] = true
			}
			m.ReadOwn(q.c, q.session, 0, q.marked, now)
		default:
			c.failed(q.key)
			m.Vanished(q.c, now)
		}
		c.look(q.c)
	case "watch":
		if _, asked := c.asked[q.key]; lost || !q.there {
			c.failed(q.key)
		} else if asked {
			c.asked[q.key] = true
		}
		c.look(q.c)
	case "read":
		switch {
		case lost:
			if q.watched {
				c.failed(queue)
			}
			m.Owe(q.c, Queue)
		case q.there:
			v := q.view
			v.Watched = q.watched
			m.Read(q.c, v)
			for _, n := range q.c.Ahead {
				if _, asked := c.asked[n.Key]; n.Key != queue && !asked {
					c.asked[n.Key] = false
					c.ask(&call{do: "watch", c: q.c, key: n.Key})
				}
			}
		default:
			m.Vanished(q.c, now)
		}
		if lost {
			delete(c.looked, q.c)
			return
		}
		c.look(q.c)
	}
}

// failed: a watch does not stand.
func (c *client) failed(key string) {
	delete(c.asked, key)
	c.m.Deaf(key, key == queue, true)
}

func (c *client) ask(q *call) { c.calls = append(c.calls, q) }

// look goes on until nothing is due or under way, as engines do.
func (c *client) look(cl *Claim) {
	delete(c.looks, cl)
	if slices.ContainsFunc(c.calls, func(q *call) bool { return q.c == cl && q.do != "remove" }) {
		return
	}
	due := c.m.Take(cl)
	c.looked[cl] = due != 0
	switch {
	case due == 0:
		c.m.News(cl)
	case due&Own != 0:
		_, asked := c.asked[cl.Key]
		if !asked {
			c.asked[cl.Key] = false
		}
		c.m.Owe(cl, due&^Own)
		c.ask(&call{do: "own", c: cl, key: cl.Key, watched: !c.asked[cl.Key]})
	case due&Queue != 0:
		watched := cl.Phase == Settled || slices.Contains(cl.Ahead, Node{Key: queue})
		if _, asked := c.asked[queue]; watched && !asked {
			c.asked[queue] = true // answered with the read: nobody asks between
		}
		c.ask(&call{do: "read", c: cl, watched: watched})
	default:
		c.ask(&call{do: "wake", c: cl})
	}
}

// renew proves a claim: whatever does not stand as it was is read again. Who waits behind
// a holder may have gone unseen.
func (c *client) renew(cl *Claim) {
	if !cl.Phase.Wanted() {
		return
	}
	if i := c.key(cl); i < 0 || c.w.nodes[i].marked {
		c.m.Owe(cl, Own)
	}
	if cl.Contended {
		c.m.Owe(cl, Queue)
	}
	c.m.Settle(cl)
	c.looks[cl] = true
}

// expire is what the client does when it hears that its session has ended.
func (c *client) expire() {
	c.m.Ended(c.session)
	c.session += 10
	c.ended = false
	clear(c.asked)
	clear(c.stands)
	c.received = nil
	for _, q := range slices.Clone(c.calls) {
		if q.do == "make" || q.do == "find" {
			c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == q })
			c.m.NotMade(q.c) // the session that asked is no more
			continue
		}
		c.answer(q, q.do != "remove")
	}
}

// fingerprint is equal for states that go on alike.
func (w *world) fingerprint() string {
	var b strings.Builder
	fmt.Fprint(&b, w.faults, w.leaves, w.revokes, w.nodes)
	for _, c := range w.clients {
		fmt.Fprint(&b, "|", c.session, c.ended, c.received, slices.Sorted(maps.Keys(c.stands)))
		asked := []string{}
		for k, v := range c.asked {
			asked = append(asked, fmt.Sprint(k, v))
		}
		sort.Strings(asked)
		fmt.Fprint(&b, asked)
		for _, cl := range c.claims {
			fmt.Fprint(&b, ";", cl.Phase, cl.Due, cl.Key, cl.Session, cl.Ahead, cl.Contended, cl.notified, cl.listens, w.version-cl.since, cl.since == 0,
				c.looks[cl], c.looked[cl], c.notified[cl].State, c.notified[cl].Contended, c.was[cl], c.ends[cl], c.ready[cl])
		}
		calls := []string{}
		for _, q := range c.calls {
			v := q.view
			v.Version = w.version - v.Version
			calls = append(calls, fmt.Sprint(q.do, c.name(q.c), q.key, q.watched, q.arrived, q.there, q.marked, q.session, v))
		}
		sort.Strings(calls)
		fmt.Fprint(&b, calls)
	}
	return b.String()
}
