package session

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"leasehold/engine"
)

// The exploration: every order of everything that can happen, in small worlds, breadth
// first: what it finds wrong it finds by a shortest schedule, and prints that. A state is
// reached again by taking its steps from the beginning, as in internal/claims.

var deep = flag.Int("explore.deep", 1, "look at so many times as many states of each world")

func worlds() []*setup {
	writer, reader, permit := want{2, 2}, want{1, 2}, want{1, 2}
	return []*setup{
		{name: "two writers", claims: [][]want{{writer}, {writer}}, faults: 2, leaves: 1, revokes: 1, seen: 8_000},
		{name: "two of one client", claims: [][]want{{writer, writer}}, faults: 2, leaves: 1, revokes: 1, seen: 8_000},
		{name: "a reader and two writers", claims: [][]want{{reader, writer}, {writer}}, faults: 1, leaves: 1, seen: 8_000},
		{name: "four permits of two", claims: [][]want{{permit, permit}, {permit, permit}}, faults: 0, seen: 8_000},
		{name: "three permits of two", claims: [][]want{{permit}, {permit}, {permit}}, faults: 1, leaves: 1, seen: 8_000},
	}
}

// effort is how much of so much to do: nothing here is concurrent, and all is slower where
// races are looked for.
func effort(most int) int {
	if raced {
		most /= 8
	}
	return most * *deep
}

// step is one thing that happens.
type step struct {
	name  string
	fault bool
	free  bool // nobody has to take it: callers and operators
	take  func()
}

// steps are all that can happen now.
func (w *world) steps() (all []step) {
	add := func(fault, free bool, take func(), format string, args ...any) {
		all = append(all, step{fmt.Sprintf(format, args...), fault, free, take})
	}
	for _, c := range w.clients {
		who := string(rune('A' + c.n))
		for _, q := range c.calls {
			switch {
			case c.ended:
			case !q.arrived:
				add(false, false, func() { c.arrive(q) }, "%s: %s %s arrives", who, q.do, c.name(q.c))
				if w.faults > 0 {
					add(true, false, func() { w.faults--; c.answer(q, true) }, "%s: %s %s is lost", who, q.do, c.name(q.c))
				}
			default:
				add(false, false, func() { c.answer(q, false) }, "%s: %s %s is answered", who, q.do, c.name(q.c))
				if w.faults > 0 {
					add(true, false, func() { w.faults--; c.answer(q, true) }, "%s: the answer to %s %s is lost", who, q.do, c.name(q.c))
				}
			}
		}
		if len(c.received) > 0 && !c.ended {
			e := c.received[0]
			receive := func() {
				if delete(c.asked, e.key); e.what == Removed {
					delete(c.asked, e.key)
				}
				c.m.Changed(e.key, e.what)
			}
			add(false, false, func() { c.received = c.received[1:]; receive() }, "%s hears of %s", who, e.key)
			if w.faults > 0 {
				add(true, false, func() { w.faults--; receive() }, "%s hears of %s, and will again", who, e.key)
				add(true, false, func() {
					w.faults--
					c.received = nil
					// Only a connection that broke loses events; the library asks for its
					// watches again.
					for key := range c.asked {
						c.stands[key] = c.stands[key] || key == queue || slices.ContainsFunc(w.nodes, func(n node) bool { return n.key == key })
					}
					for _, q := range slices.Clone(c.calls) {
						c.answer(q, true)
					}
					c.m.Resumed()
					for _, cl := range c.claims {
						c.looks[cl] = true // its client asks for everything
					}
				}, "%s connects again, and was not told of %s", who, e.key)
			}
		}
		if n := len(c.claims); n < len(w.claims[c.n]) {
			add(false, true, func() {
				k := w.claims[c.n][n]
				cl := &Claim{Request: engine.Request{Name: "x", ID: engine.ID{byte(c.n + 1), byte(n + 1)}, Permits: k.permits, Limit: k.limit}, Queue: queue}
				c.claims = append(c.claims, cl)
				c.m.Begin(cl)
				c.ask(&call{do: "make", c: cl})
			}, "%s%d joins", who, n+1)
		}
		for _, cl := range c.claims {
			idle := !slices.ContainsFunc(c.calls, func(q *call) bool { return q.c == cl })
			if idle && cl.Phase.Wanted() && c.looks[cl] {
				add(false, false, func() { c.look(cl) }, "%s looks", c.name(cl))
			}
			if cl.Phase.Wanted() && cl.Phase != Placed && (!c.ready[cl] || cl.Phase == Held) {
				add(false, false, func() {
					c.ready[cl] = true
					if c.m.Settle(cl) {
						c.looks[cl] = true
					}
				}, "%s lasts", c.name(cl))
			}
			if holds := cl.Phase.Holds() || cl.Phase == Marked; holds || w.leaves > 0 {
				if first := cl.Phase < Leaving && cl.Phase != Unwanted; first {
					add(false, true, func() {
						if !holds {
							w.leaves--
						}
						c.ends[cl] = true
						if _, remove := c.m.Leave(cl); remove {
							c.ask(&call{do: "remove", c: cl, key: cl.Key})
						}
					}, "%s leaves", c.name(cl))
				}
			}
		}
		if w.faults > 0 && !c.ended {
			add(true, false, func() {
				w.faults--
				c.ended = true
				for i := len(w.nodes) - 1; i >= 0; i-- {
					if n := w.nodes[i]; n.client == c.n && n.session == c.session {
						c.ends[c.claims[n.claim]] = true
						w.remove(i)
					}
				}
			}, "the session of %s ends", who)
		}
		if c.ended {
			add(false, false, c.expire, "%s hears that its session has ended", who)
		}
	}
	if w.revokes > 0 {
		for i, n := range w.nodes {
			add(false, true, func() {
				w.revokes--
				w.clients[n.client].ends[w.clients[n.client].claims[n.claim]] = true
				if !w.held(i) {
					w.remove(i)
					return
				}
				w.nodes[i].marked = true
				w.changed(n.key, Written)
			}, "%s is revoked", n.key)
		}
	}
	return all
}

// check is what must be so in every state.
func (w *world) check() {
	for _, c := range w.clients {
		for _, cl := range c.claims {
			if r := c.m.Found(cl); r.State == engine.Held && !c.was[cl] {
				w.fail("%s is held, and never was within the limit", c.name(cl))
			}
			if cl.Phase >= Gone && c.m.Claims[cl.ID] == cl || cl.Phase < Gone && c.m.Claims[cl.ID] != cl {
				w.fail("%s is %d, and known: %v", c.name(cl), cl.Phase, c.m.Claims[cl.ID] == cl)
			}
			if other, ok := c.m.By(cl.Key); ok && cl.Phase >= Gone && other == cl {
				w.fail("%s is gone, and its key is known", c.name(cl))
			}
			if cl.Phase >= Leaving && (len(cl.Ahead) > 0 || len(c.m.queues[queue]) > 0 && has(c.m.queues[queue], cl)) {
				w.fail("%s is given up, and listens", c.name(cl))
			}
		}
	}
}

func has(all map[*Claim]struct{}, c *Claim) bool { _, ok := all[c]; return ok }

// quiet lets happen what has to.
func (w *world) quiet(say func(string)) {
	for range 1000 {
		i := slices.IndexFunc(w.steps(), func(s step) bool { return !s.fault && !s.free })
		if i < 0 || w.broken != "" {
			return
		}
		st := w.steps()[i]
		say("then " + st.name)
		st.take()
		w.check()
	}
	w.fail("it never comes to rest")
}

// settle lets happen what has to, and looks whether all is as it should be then. Where
// something was lost, a renewal may be needed for that.
func (w *world) settle(say func(string)) {
	w.quiet(say)
	if w.faults < w.setup.faults {
		say("and all is renewed")
		for _, c := range w.clients {
			for _, cl := range c.claims {
				c.renew(cl)
			}
		}
		w.quiet(say)
	}
	for i, n := range w.nodes {
		c := w.clients[n.client]
		cl := c.claims[n.claim]
		switch {
		case cl.Phase >= Leaving || cl.Phase == Unwanted:
			w.fail("%s was given up or told gone, and stands in the store", c.name(cl))
		case n.marked && (cl.Phase != Marked || !c.notified[cl].Revoked):
			w.fail("%s was revoked, and is not told", c.name(cl))
		case w.held(i) && !n.marked && c.notified[cl].State != engine.Held:
			w.fail("%s holds, and is not told", c.name(cl))
		case w.held(i) && !n.marked && !c.notified[cl].Contended && c.view(i).Contended:
			w.fail("somebody waits behind %s, which is not told", c.name(cl))
		}
	}
	for _, c := range w.clients {
		for _, cl := range c.claims {
			if (cl.Phase.Stands() || cl.Phase == Leaving) && c.key(cl) < 0 {
				w.fail("%s is %d, and does not stand in the store", c.name(cl), cl.Phase)
			}
			if cl.Phase == Making || cl.Phase == Unwanted {
				w.fail("whether %s was made is never known", c.name(cl))
			}
		}
	}
}

type state struct {
	parent, step int32
}

// explore looks at states until so many were seen or none is left.
func (s *setup) explore(limit int) (states int, all bool, wrong string) {
	found := []state{{parent: -1}}
	seen := map[[16]byte]bool{}
	mark := func(w *world) bool {
		sum := sha256.Sum256([]byte(w.fingerprint()))
		print := [16]byte(sum[:16])
		if seen[print] {
			return false
		}
		seen[print] = true
		return true
	}
	mark(newWorld(s))
	for at := 0; at < len(found); at++ {
		path := s.path(found, int32(at))
		n := len(s.replay(path).steps())
		for i := range n {
			w := s.replay(path)
			w.steps()[i].take()
			w.check()
			full := append(slices.Clone(path), int32(i))
			if w.broken == "" && mark(w) {
				found = append(found, state{int32(at), int32(i)})
				if len(found)%7 == 0 {
					w.settle(func(string) {})
				}
			}
			if w.broken != "" {
				return len(found), false, w.broken + "\n" + s.notify(full)
			}
			if len(found) >= limit {
				return len(found), false, ""
			}
		}
	}
	return len(found), true, ""
}

func (s *setup) path(found []state, at int32) (path []int32) {
	for ; at > 0; at = found[at].parent {
		path = append(path, found[at].step)
	}
	slices.Reverse(path)
	return path
}

func (s *setup) replay(path []int32) *world {
	w := newWorld(s)
	for _, i := range path {
		w.steps()[i].take()
	}
	return w
}

// tell is a schedule as a text.
func (s *setup) notify(path []int32) string {
	w, b := newWorld(s), strings.Builder{}
	for _, i := range path {
		st := w.steps()[i]
		fmt.Fprintln(&b, " ", st.name)
		st.take()
	}
	w.settle(func(what string) { fmt.Fprintln(&b, " ", what) })
	return b.String()
}

// TestChance goes further than the exploration comes, along schedules that chance made.
func TestChance(t *testing.T) {
	for _, s := range worlds() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(effort(3_000)) {
				r := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(s)
				var path []int32
				for range 20 + r.IntN(60) {
					steps := w.steps()
					if len(steps) == 0 {
						break
					}
					i := r.IntN(len(steps))
					for n := 0; n < 4 && (steps[i].fault || steps[i].free && n < 2); n++ {
						i = r.IntN(len(steps)) // those are many, and spoil what comes late
					}
					path = append(path, int32(i))
					steps[i].take()
					if w.check(); w.broken != "" {
						break
					}
				}
				if w.broken == "" {
					w.settle(func(string) {})
				}
				if w.broken != "" {
					t.Fatalf("seed %d: %s\n%s", seed, w.broken, s.notify(path))
				}
			}
		})
	}
}

func TestExplore(t *testing.T) {
	for _, s := range worlds() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			states, all, wrong := s.explore(effort(s.seen))
			if wrong != "" {
				t.Fatal(wrong)
			}
			t.Logf("%d states, all: %v", states, all)
		})
	}
}
