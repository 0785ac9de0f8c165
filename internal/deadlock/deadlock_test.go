package deadlock

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"leasehold/engine"
)

// edges is who waits for whom among claims of actors that are deadlocked, by the
// definition and claim by claim; reach is who waits for whom by any way.
func (w *world) edges(dead map[int]bool) (all []waiter, reach map[*member]map[*member]bool) {
	reach = map[*member]map[*member]bool{}
	for _, f := range w.waiters() {
		if dead[f.actor] {
			all = append(all, f)
		}
	}
	for _, f := range all {
		reach[f.member] = map[*member]bool{}
		for _, c := range w.lines[f.Key] {
			if c == f.member {
				break
			}
			if c.over || f.limit == engine.Max && c.permits == 1 && f.permits == 1 {
				continue
			}
			for _, o := range all {
				if o.member == c || slices.ContainsFunc(o.holds, func(h engine.Hold) bool {
					return o.actor == c.actor && h == engine.Hold{Name: f.Name, Ticket: c.ticket, Elsewhere: o.Engine != f.Engine}
				}) {
					reach[f.member][o.member] = true
				}
			}
		}
	}
	for _, via := range all {
		for _, a := range all {
			for _, b := range all {
				if reach[a.member][via.member] && reach[via.member][b.member] {
					reach[a.member][b.member] = true
				}
			}
		}
	}
	return all, reach
}

func randomWorld(t *rapid.T, permits bool) (w *world, actors int) {
	w = newWorld(t, permits)
	actors = rapid.IntRange(2, 7).Draw(t, "actors")
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		w.act(t, actors)
	}
	return w, actors
}

// seek checks worlds until all that is looked for was found. With -short rapid makes only 20 at once.
func seek(t *testing.T, check func(*rapid.T), found ...*int) {
	missing := func(n *int) bool { return *n == 0 }
	for tries := 0; tries < 50 && slices.ContainsFunc(found, missing); tries++ {
		rapid.Check(t, check)
	}
}

// Nobody is a victim who could go on; somebody is wherever nobody can; and when
// victims have given up often enough, all can.
func TestDeadlocksAreFoundAndNothingElse(t *testing.T) {
	found := 0
	check := func(t *rapid.T) {
		w, actors := randomWorld(t, true)
		for dead := w.deadlocked(actors); len(dead) > 0; dead = w.deadlocked(actors) {
			found++
			victims := 0
			for _, m := range w.waiters() {
				v, s := w.look(m)
				if v != Wait && !dead[m.actor] {
					t.Fatalf("%v of %v: actor %d could go on", v, m.Key, m.actor)
				}
				if again := s; v != Wait {
					again = s.Again()
					w.pass(again, func() {})
					if again.Verdict() != v {
						t.Fatalf("%v, and %v in a second pass of the same", v, again.Verdict())
					}
				}
				if v == Victim {
					victims++
				}
			}
			if victims == 0 {
				t.Fatalf("actors %v are deadlocked and there is no victim", dead)
			}
			for _, m := range w.waiters() {
				if v, _ := w.look(m); v == Victim {
					w.remove(m.actor)
					break
				}
			}
		}
		for _, m := range w.waiters() {
			if v, _ := w.look(m); v != Wait {
				t.Fatalf("%v where everybody can go on", v)
			}
		}
	}
	seek(t, check, &found)
	if found == 0 {
		t.Error("void: no world had a deadlock")
	}
}

// Of exclusive and shared claims each cycle (who waits for each other, directly or
// not) has one victim, whoever looks, and who is in none has none.
func TestEachCycleHasOneVictim(t *testing.T) {
	found := 0
	check := func(t *rapid.T) {
		w, actors := randomWorld(t, false) // of permits, a knot is more than a cycle
		all, reach := w.edges(w.deadlocked(actors))
		verdicts := map[*member]Verdict{}
		for _, m := range all {
			verdicts[m.member], _ = w.look(m)
			if in := reach[m.member][m.member]; in != (verdicts[m.member] != Wait) {
				t.Fatalf("%v of a claim that is in a cycle: %v", verdicts[m.member], in)
			}
		}
		for _, m := range all {
			victims, members := 0, 0
			for _, o := range all {
				if reach[m.member][o.member] && reach[o.member][m.member] {
					if members++; verdicts[o.member] == Victim {
						victims++
					}
				}
			}
			if members > 0 {
				found++
				if victims != 1 {
					t.Fatalf("%d victims of a cycle of %d claims", victims, members)
				}
			}
		}
	}
	seek(t, check, &found)
	if found == 0 {
		t.Error("void: no world had a cycle")
	}
}

// The cycle that is shown is one.
func TestTheCycleThatIsShownIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, _ := randomWorld(t, true)
		for _, m := range w.waiters() {
			v, s := w.look(m)
			if v == Wait {
				continue
			}
			steps := s.Cycle()
			if len(steps) == 0 || steps[0].Claim.Ticket != m.ticket || steps[0].Claim.Name != m.Name {
				t.Fatalf("%+v does not begin with %q:%d", steps, m.Name, m.ticket)
			}
			for i, st := range steps {
				next := steps[(i+1)%len(steps)].Claim
				has := next.Name == st.Claim.Name && next.Ticket == st.Behind
				for _, h := range next.Owner.Holds {
					has = has || h.Name == st.Claim.Name && h.Ticket == st.Behind
				}
				if !has || st.Claim.State != engine.Waiting {
					t.Fatalf("%+v waits behind %d, which %+v does not have", st.Claim, st.Behind, next)
				}
			}
		}
	})
}

// Queues are read one by one while everything changes. Who is found twice was
// deadlocked when the first pass ended. Once is not enough: that this test sees the
// difference, it counts.
func TestWhatIsFoundTwiceWasTrueAtOneMoment(t *testing.T) {
	once, confirmed, phantoms := 0, 0, 0
	look := func(t *rapid.T) {
		w, actors := randomWorld(t, true)
		between := func() {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				w.act(t, actors)
			}
		}
		for _, m := range w.waiters() {
			s := New(2, m.Key, m.ticket)
			w.pass(s, between)
			if s.Verdict() != Victim {
				continue
			}
			once++
			was := w.deadlocked(actors)[m.actor]
			if !was {
				phantoms++
			}
			again := s.Again()
			w.pass(again, between)
			if again.Verdict() == Victim {
				if confirmed++; !was {
					t.Fatalf("actor %d is the victim of a deadlock that never was", m.actor)
				}
			}
		}
	}
	for range 10 { // one in fifty is of use
		rapid.Check(t, look)
	}
	seek(t, look, &confirmed, &phantoms)
	t.Logf("%d victims of one pass, %d of them never deadlocked; %d of two", once, phantoms, confirmed)
	if confirmed == 0 || phantoms == 0 {
		t.Error("void")
	}
}

// Another cycle is no proof of the one that was seen first: that takes two passes of
// its own.
func TestASecondPassCountsOnlyWhatTheFirstOneSaw(t *testing.T) {
	w := chain(2, false) // actor 1 waits for what actor 2 holds
	a := Key{0, "n0"}
	w.join(3, a, 2)
	w.join(2, a, 2) // and that one behind actor 3 for what actor 1 holds
	me := w.waiters()[1]
	v, s := w.look(me)
	if v != Victim || me.actor != 2 {
		t.Fatalf("%v for actor %d", v, me.actor)
	}
	w.remove(1)
	w.join(3, Key{0, "n1"}, 2)
	w.lines[Key{0, "n1"}][1].ticket = 0 // not the youngest
	if v, _ := w.look(me); v != Victim {
		t.Fatalf("void: %v in a cycle with actor 3", v)
	}
	again := s.Again()
	w.pass(again, func() {})
	if v := again.Verdict(); v != Wait {
		t.Errorf("%v by a cycle with actor 1 and another with actor 3", v)
	}
}

// Who keeps nobody from anything need not read on: no queue that it has not read could
// make it the victim.
func TestTheHopelessAreNoVictims(t *testing.T) {
	hopeless := 0
	look := func(t *rapid.T) {
		w, _ := randomWorld(t, true)
		for _, m := range w.waiters() {
			s := New(2, m.Key, m.ticket)
			w.hopeful(s)
			if !s.Hopeless() {
				continue
			}
			hopeless++
			if v, _ := w.look(m); v == Victim {
				t.Fatalf("%v is a victim, and hopeless", m)
			}
		}
	}
	seek(t, look, &hopeless)
	if hopeless == 0 {
		t.Error("void: nobody was hopeless")
	}
}

// chain is n actors, each of whom holds one name and waits for the next one's; the
// last for the first one's if it is closed.
func chain(n int, closed bool) *world {
	w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{}}
	name := func(i int) Key { return Key{0, fmt.Sprint("n", i%n)} }
	for i := range n {
		w.limits[name(i)] = engine.Max
		w.join(i+1, name(i), 2)
	}
	for i := range n {
		if i+1 < n || closed {
			w.join(i+1, name(i+1), 2)
		}
	}
	return w
}

func TestASearchReadsEachQueueOnce(t *testing.T) {
	// The last to have been waited for finds all others behind it.
	w := chain(100, false)
	all := w.waiters()
	most := 0
	for _, m := range all {
		s := New(1, m.Key, m.ticket)
		n := w.pass(s, func() {})
		if s.Verdict() != Wait {
			t.Fatal("a chain is no cycle")
		}
		most = max(most, n)
	}
	if most > 100 || most < MaxDepth {
		t.Errorf("%d reads of 100 lines", most)
	}

	star := &world{lines: map[Key][]*member{}, limits: map[Key]int32{{0, "hot"}: engine.Max, {0, "wanted"}: engine.Max}}
	star.join(1, Key{0, "hot"}, 2)
	star.join(2, Key{0, "wanted"}, 2)
	for i := range 98 { // everybody waits for actor 1, and holds a name of its own
		k := Key{0, fmt.Sprint("own", i)}
		star.limits[k] = engine.Max
		star.join(i+3, k, 2)
		star.join(i+3, Key{0, "hot"}, 2)
	}
	star.join(1, Key{0, "wanted"}, 2)
	for _, m := range star.waiters() {
		s := New(1, m.Key, m.ticket)
		if n := star.pass(s, func() {}); m.actor == 1 && n != 100 || s.Verdict() != Wait {
			t.Errorf("%d reads of 100 lines, %v", n, s.Verdict())
		}
		s = New(1, m.Key, m.ticket)
		if n := star.hopeful(s); m.actor != 1 && n != 2 {
			t.Errorf("%d reads for one that nobody waits for", n)
		}
	}

	ring := chain(6, true)
	for _, m := range ring.waiters() {
		v, s := ring.look(m)
		if v == Wait {
			t.Fatal("a ring is a cycle")
		}
		if n := ring.pass(s.Again(), func() {}); n != 6 {
			t.Errorf("%d reads in the second pass, for a cycle of 6 lines", n)
		}
	}
}

func TestAtABoundNothingIsFound(t *testing.T) {
	for n, want := range map[int]int{MaxDepth: 1, MaxDepth + 1: 0} {
		w := chain(n, true)
		if victims := w.victims(); victims != want {
			t.Errorf("%d victims of a cycle of %d, want %d", victims, n, want)
		}
	}
	w := chain(2, true)
	for i := range MaxQueues { // all of them wait behind the cycle
		k := Key{0, fmt.Sprint("own", i)}
		w.limits[k] = engine.Max
		w.join(i+3, k, 2)
		w.join(i+3, Key{0, "n0"}, 2)
	}
	for _, m := range w.waiters() {
		s := New(1, m.Key, m.ticket)
		if n := w.pass(s, func() {}); n > MaxQueues || s.Verdict() != Wait {
			t.Errorf("%v after %d reads", s.Verdict(), n)
		}
	}
	s := New(1, Key{0, "n0"}, 1)
	s.Next()
	s.Read(Key{0, "n0"}, engine.Queue{Claims: make([]engine.Claim, MaxClaims+1)})
	if s.Next(); s.Verdict() != Wait {
		t.Error("a queue that is too long")
	}
	w = chain(3, true)
	for _, m := range w.waiters() {
		s := New(1, m.Key, m.ticket)
		for keys := s.Next(); len(keys) > 0; keys = s.Next() {
			for _, k := range keys {
				l := w.read(k)
				l.Claims = append(l.Claims, make([]engine.Claim, MaxClaims/2)...) // none is too long
				s.Read(k, l)
			}
		}
		if v := s.Verdict(); v != Wait {
			t.Errorf("%v by queues that are too long together", v)
		}
	}
}

func TestWhoIsCounted(t *testing.T) {
	a, b := Key{0, "a"}, Key{0, "b"}
	ring := func() *world { return chain(2, true) }
	for name, change := range map[string]func(*world){
		"a holder whose time has run out": func(w *world) { w.lines[Key{0, "n0"}][0].over = true },
		"a waiter whose time has run out": func(w *world) { w.lines[Key{0, "n1"}][1].over = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := ring()
			change(w)
			for _, m := range w.waiters() {
				if v, _ := w.look(m); v != Wait {
					t.Errorf("%v: it will go by itself", v)
				}
			}
		})
	}
	for name, apart := range map[string]bool{"a hold elsewhere of another process": false, "a hold elsewhere of the same process id on another host": true} {
		t.Run(name, func(t *testing.T) {
			w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{a: engine.Max, {1, "b"}: engine.Max, b: engine.Max}, apart: apart}
			w.join(1, a, 2)
			w.join(2, Key{1, "b"}, 2) // the same name and ticket in two engines
			w.tickets[0] = 0
			w.join(3, b, 2)
			w.join(1, b, 2)
			w.join(2, a, 2) // holds b:1 of engine 1; the one of engine 0 is actor 3's
			for _, m := range w.waiters() {
				if v, _ := w.look(m); v != Wait {
					t.Errorf("%v: actor 3 can go on", v)
				}
			}
		})
	}
	t.Run("one that waits for what it holds itself", func(t *testing.T) {
		w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{a: 1}}
		w.join(1, a, 1)
		w.join(1, a, 1)
		if v, s := w.look(w.waiters()[0]); v != Victim || len(s.Cycle()) != 1 {
			t.Errorf("%v, %v", v, s.Cycle())
		}
	})
	t.Run("a reader that waits behind a writer that waits for readers", func(t *testing.T) {
		w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{a: engine.Max, b: engine.Max}}
		w.join(1, a, 1) // reads a
		w.join(2, b, 2)
		w.join(3, a, 2) // writes a, and holds nothing: it never looks
		w.join(2, a, 1)
		w.join(1, b, 2)
		victims := 0
		for _, m := range w.waiters() {
			v, _ := w.look(m)
			if v == Victim {
				victims++
			}
			if (m.actor == 1) != (v == Victim) {
				t.Errorf("%v for actor %d", v, m.actor)
			}
		}
		if victims != 1 {
			t.Errorf("%d victims", victims)
		}
	})
	t.Run("readers side by side, of whom the younger gives up", func(t *testing.T) {
		w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{a: engine.Max, b: engine.Max}}
		w.join(1, b, 1) // two read b
		w.join(2, b, 1)
		w.join(3, a, 2)
		w.join(3, b, 2)
		w.join(1, a, 1) // and wait for the writer that waits for them
		w.join(2, a, 1)
		w.join(4, a, 2) // who waits for both, the first of whom it finds first
		for _, m := range w.waiters() {
			if v, _ := w.look(m); (m.actor == 2) != (v == Victim) {
				t.Errorf("%v for actor %d", v, m.actor)
			}
		}
	})
	t.Run("the same ticket of the same name in two engines", func(t *testing.T) {
		other := Key{1, "a"}
		w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{a: engine.Max, other: engine.Max}}
		w.join(1, other, 2)
		w.join(2, a, 2)
		w.join(1, a, 2)
		w.join(2, other, 2)
		if victims := w.victims(); victims != 1 {
			t.Errorf("%d victims", victims)
		}
	})
	t.Run("a permit that comes free", func(t *testing.T) {
		w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{a: 2, b: engine.Max}}
		w.join(1, a, 1)
		w.join(2, a, 1)
		w.join(3, b, 2)
		w.join(3, a, 1)
		w.join(1, b, 2)
		for _, m := range w.waiters() {
			if v, _ := w.look(m); v != Wait {
				t.Errorf("%v: actor 2 can go on", v)
			}
		}
		w.join(2, b, 2) // and now it cannot
		if victims := w.victims(); victims != 1 {
			t.Errorf("%d victims of a knot", victims)
		}
	})
	t.Run("one that comes free when another cycle is broken", func(t *testing.T) {
		p, q, r, h, mine := Key{0, "p"}, Key{0, "q"}, Key{0, "r"}, Key{0, "h"}, Key{0, "mine"}
		w := &world{lines: map[Key][]*member{}, limits: map[Key]int32{p: 2, q: 2, r: 2, h: engine.Max, mine: engine.Max}}
		w.join(4, p, 1)
		w.join(2, p, 1)
		w.join(1, mine, 2)
		w.join(1, r, 1)
		w.join(6, r, 1) // who waits for nothing
		w.join(3, q, 1)
		w.join(5, q, 1)
		w.join(4, h, 2)
		w.join(3, r, 1) // waits for actor 1 or 6
		w.join(4, q, 2) // for 3 and 5
		w.join(5, h, 2) // for 4: that is a cycle
		w.join(2, mine, 2)
		w.join(1, p, 1) // for 2, who waits for it, or 4
		for _, m := range w.waiters() {
			if v, _ := w.look(m); (m.actor == 5) != (v == Victim) {
				t.Errorf("%v for actor %d", v, m.actor)
			}
		}
	})
	t.Run("tickets beyond what a float holds", func(t *testing.T) {
		w := ring()
		for _, k := range []Key{{0, "n0"}, {0, "n1"}} {
			for _, m := range w.lines[k] {
				m.ticket += math.MaxInt64
				for i := range m.holds {
					m.holds[i].Ticket += math.MaxInt64
				}
			}
		}
		if victims := w.victims(); victims != 1 {
			t.Errorf("%d victims", victims)
		}
	})
}
