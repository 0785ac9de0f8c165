package deadlock

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"leasehold/engine"
)

// world is callers of several engines, what they hold and what they wait for. Its
// queues obey the one rule; what is stuck in it is found by letting everybody who can
// go on go on, which is not how a Search finds it.
type world struct {
	lines   map[Key][]*member
	limits  map[Key]int32
	tickets [2]uint64
	apart   bool // each actor is on a host of its own, all with the same process id
}

type member struct {
	actor          int
	ticket         uint64
	permits, limit int32
	holds          []engine.Hold
	over           bool // it has run out, or was revoked
}

func newWorld(t *rapid.T, permits bool) *world {
	w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{}, apart: rapid.Bool().Draw(t, "apart")}
	for i := range rapid.IntRange(1, 4).Draw(t, "names") {
		for e := range 2 {
			limit := int32(engine.Max)
			if permits && rapid.IntRange(0, 1).Draw(t, "kind") == 0 {
				limit = int32(rapid.IntRange(1, 3).Draw(t, "limit"))
			}
			w.limits[Key{e, fmt.Sprint("n", i)}] = limit
		}
	}
	return w
}

func (w *world) keys() []Key {
	return slices.SortedFunc(func(yield func(Key) bool) {
		for k := range w.limits {
			if !yield(k) {
				return
			}
		}
	}, func(a, b Key) int { return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b))) })
}

// held reports whether the i-th of a queue is.
func held(line []*member, i int) bool {
	sum := int64(0)
	for _, m := range line[:i+1] {
		sum += int64(m.permits)
	}
	return sum <= int64(line[i].limit)
}

// mine is what an actor holds, and how many of its claims wait.
func (w *world) mine(actor int) (holds map[Key][]*member, waits int) {
	holds = map[Key][]*member{}
	for k, line := range w.lines {
		for i, m := range line {
			switch {
			case m.actor != actor:
			case held(line, i):
				holds[k] = append(holds[k], m)
			default:
				waits++
			}
		}
	}
	return holds, waits
}

// act is one thing that one actor does, by chance.
func (w *world) act(t *rapid.T, actors int) {
	actor := rapid.IntRange(1, actors).Draw(t, "actor")
	holds, waits := w.mine(actor)
	k := rapid.SampledFrom(w.keys()).Draw(t, "name")
	switch rapid.IntRange(0, 9).Draw(t, "does") {
	case 0:
		w.remove(actor) // it gives up, and lets go of everything
	case 1:
		if waits == 0 && len(holds[k]) > 0 {
			w.lines[k] = slices.DeleteFunc(w.lines[k], func(m *member) bool { return m == holds[k][0] })
		}
	case 2:
		if line := w.lines[k]; len(line) > 0 && line[0].actor == actor && rapid.Bool().Draw(t, "over") {
			line[0].over = true
		}
	default:
		if waits == 0 {
			w.join(actor, k, int32(rapid.IntRange(1, 3).Draw(t, "units")))
		}
	}
}

func (w *world) join(actor int, k Key, permits int32) {
	holds, _ := w.mine(actor)
	limit := w.limits[k]
	if limit == engine.Max {
		if len(holds[k]) > 0 || slices.ContainsFunc(w.lines[k], func(m *member) bool { return m.actor == actor }) {
			return // that is ErrReentry
		}
		if permits > 1 {
			permits = engine.Max
		}
	}
	m := &member{actor: actor, permits: min(permits, limit), limit: limit}
	for _, h := range w.keys() {
		for _, o := range holds[h] {
			m.holds = append(m.holds, engine.Hold{Name: h.Name, Ticket: o.ticket, Elsewhere: h.Engine != k.Engine})
		}
	}
	w.tickets[k.Engine]++ // tickets of two engines are often equal
	m.ticket = w.tickets[k.Engine]
	w.lines[k] = append(w.lines[k], m)
}

func (w *world) remove(actor int) {
	for k := range w.lines {
		w.lines[k] = slices.DeleteFunc(w.lines[k], func(m *member) bool { return m.actor == actor })
	}
}

func (w *world) owner(m *member) engine.Owner {
	if w.apart {
		return engine.Owner{Host: fmt.Sprint("h", m.actor), PID: 1, Holds: m.holds}
	}
	return engine.Owner{Host: "h", PID: m.actor, Holds: m.holds}
}

func (w *world) read(k Key) engine.Queue {
	l := engine.Queue{Name: k.Name, Limit: w.limits[k]}
	for i, m := range w.lines[k] {
		c := engine.Claim{Name: k.Name, Ticket: m.ticket, Permits: m.permits, Limit: m.limit, State: engine.Waiting, Owner: w.owner(m), TTL: 1}
		if held(w.lines[k], i) {
			c.State = engine.Held
		}
		if m.over {
			c.TTL, c.Revoked = -1, m.ticket%2 == 0
		}
		l.Claims = append(l.Claims, c)
	}
	return l
}

// clone is w without claims that are over.
func (w *world) clone() *world {
	c := &world{lines: map[Key][]*member{}, limits: w.limits}
	for k, line := range w.lines {
		for _, m := range line {
			if !m.over {
				c.lines[k] = append(c.lines[k], m)
			}
		}
	}
	return c
}

// deadlocked is the actors that are left when everybody who waits for nothing has
// gone, and everybody who waits for nothing then, and so on.
func (w *world) deadlocked(actors int) map[int]bool {
	w = w.clone()
	left := map[int]bool{}
	for a := range actors {
		left[a+1] = true
	}
	for changed := true; changed; {
		changed = false
		for a := range left {
			if _, waits := w.mine(a); waits == 0 {
				w.remove(a)
				delete(left, a)
				changed = true
			}
		}
	}
	return left
}

// waiter is a claim that waits.
type waiter struct {
	Key
	*member
}

func (w *world) waiters() (all []waiter) {
	for _, k := range w.keys() {
		for i, m := range w.lines[k] {
			if !m.over && !held(w.lines[k], i) {
				all = append(all, waiter{k, m})
			}
		}
	}
	return all
}

// victims is how many of those who wait are told to give way.
func (w *world) victims() (n int) {
	for _, m := range w.waiters() {
		if v, _ := w.look(m); v == Victim {
			n++
		}
	}
	return n
}

// pass goes through one pass, and calls between before each queue it reads. It
// returns how many it read.
func (w *world) pass(s *Search, between func()) (reads int) {
	for keys := s.Next(); len(keys) > 0; keys = s.Next() {
		for _, k := range keys {
			between()
			s.Read(k, w.read(k))
			reads++
		}
	}
	return reads
}

// hopeful is a pass that ends where nothing can come of it.
func (w *world) hopeful(s *Search) (reads int) {
	for keys := s.Next(); len(keys) > 0; keys = s.Next() {
		for _, k := range keys {
			s.Read(k, w.read(k))
			reads++
		}
		if s.Hopeless() {
			break
		}
	}
	return reads
}

// look is a search in a world that does not change.
func (w *world) look(m waiter) (Verdict, *Search) {
	s := New(2, m.Key, m.ticket)
	w.pass(s, func() {})
	v := s.Verdict()
	return v, s
}
