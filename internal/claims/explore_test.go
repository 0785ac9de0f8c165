package claims

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The exploration: every order of everything that can happen, in small worlds.
//
// It goes breadth first, so what it finds wrong it finds by a shortest
// schedule, and prints that, one step a queue. States are known by their
// fingerprints and not kept: a state is reached again by taking its steps from
// the beginning. That is three fifths of the time that a search takes (with
// schedules of 10 to 15 steps), which is the most that copying states could save;
// it needs no code that copies machines, and no memory for states that wait.

var deep = flag.Int("explore.deep", 1, "look at so many times as many states of each world")

// node is a state by how it was reached.
type node struct {
	parent int32
	step   step
}

// search is one exploration of one world.
type search struct {
	setup *setup
	nodes []node
	seen  map[fingerprint]struct{}
	print printer
	path  []step
	room  []step
}

// counts is what a search saw.
type counts struct {
	states, steps, settled, depth int
	all                           bool // no state is left
}

func (s *search) schedule(n int32) []step {
	s.path = s.path[:0]
	for ; n > 0; n = s.nodes[n].parent {
		s.path = append(s.path, s.nodes[n].step)
	}
	slices.Reverse(s.path)
	return s.path
}

func replay(s *setup, schedule []step) *world {
	w := newWorld(s)
	for _, st := range schedule {
		w.take(st)
	}
	return w
}

// run explores until limit states were seen or none is left. It returns the
// schedule that shows what is wrong, if anything is.
func (s *search) run(limit int) (c counts, wrong []step) {
	s.seen = map[fingerprint]struct{}{}
	s.nodes = append(s.nodes, node{})
	s.seen[newWorld(s.setup).fingerprint(&s.print)] = struct{}{}
	level := 1
	for at := 0; at < len(s.nodes); at++ {
		if at == level {
			c.depth, level = c.depth+1, len(s.nodes)
		}
		path := slices.Clone(s.schedule(int32(at)))
		w := replay(s.setup, path)
		s.room = w.steps(s.room[:0])
		for i, st := range s.room {
			if i > 0 {
				w = replay(s.setup, path)
			}
			w.watchPhases()
			w.take(st)
			c.steps++
			w.check()
			if w.broken != "" {
				return c, append(path, st)
			}
			print := w.fingerprint(&s.print)
			if _, ok := s.seen[print]; ok {
				continue
			}
			s.seen[print] = struct{}{}
			s.nodes = append(s.nodes, node{int32(at), st})
			if n := s.setup.tests; n > 0 && len(s.nodes)%n == 0 {
				c.settled++
				for _, how := range manners {
					if how != manners[0] {
						w = replay(s.setup, append(path, st))
					}
					if w.settle(how); w.broken != "" {
						return c, append(path, st)
					}
				}
			}
			if c.states = len(s.nodes); c.states >= limit {
				return c, nil
			}
		}
	}
	c.all = true
	return c, nil
}

// tell is a schedule as a text, one step a queue, with what was wrong at its end.
func notify(s *setup, schedule []step) string {
	for _, how := range append([]manner{none}, manners...) {
		w := newWorld(s)
		var b strings.Builder
		w.say = func(line string) { fmt.Fprintln(&b, line) }
		for _, st := range schedule {
			w.watchPhases()
			w.take(st)
		}
		w.check()
		if w.broken == "" && how != none {
			fmt.Fprintf(&b, "  from here on without faults: %v\n", how)
			w.settle(how)
		}
		if w.broken != "" {
			return fmt.Sprintf("%s\n%s", w.broken, b.String())
		}
	}
	return "nothing is wrong"
}

func TestExplore(t *testing.T) {
	for _, s := range worlds() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			limit := s.seen * *deep
			if raced {
				limit /= 4 // nothing here is concurrent, and all is five times slower
			}
			if testing.Short() {
				limit /= 4
			}
			found, wrong := (&search{setup: s}).run(limit)
			if wrong != nil {
				t.Fatalf("%d steps lead to what must not be: %s", len(wrong), notify(s, wrong))
			}
			all := "more are left"
			if found.all {
				all = "all there are"
			}
			t.Logf("%d states (%s) by %d steps, schedules of up to %d; from %d of them run until all was quiet",
				found.states, all, found.steps, found.depth, found.settled)
		})
	}
}
