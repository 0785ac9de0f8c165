package model

type kind uint8

const (
	begins kind = iota
	taken
	takenReceived
	retaken
	retakenReceived
	chooses
	raised
	raisedReceived
	restarts
	releases
	retakes
	restored
)

// An event is one step of the world.
type event struct {
	kind   kind
	try    uint8
	master uint8 // or, of begins, the hint; of chooses, the token
}

// next is every step that can follow w.
//
// A request that was sent is carried out never, once or many times, at any later
// moment: it is lost, late, and sent again by a client library. An answer is heard
// at once or never, since one that is heard too late is as good as lost; of two
// answers to one request either may be the one that is heard.
//
// A key may vanish at any moment, and does so when the next owner takes the
// master: until then nobody could tell, but that requests of its owner would be
// refused, which is as if they were lost.
func (s *setup) next(w world, yield func(event, world)) {
	for k := range s.ids {
		t := &w.tries[k]
		if t.phase == idle {
			// Tries begin in order: exchanging two of them exchanges names.
			s.begin(w, k, yield)
			break
		}
		if t.phase == asking {
			s.choose(w, k, yield)
		}
		for i := range s.masters {
			s.take(w, k, i, yield)
			if t.phase >= raising {
				s.raiseAt(w, k, i, yield)
			}
			if s.releases && w.masters[i].owner == s.ids[k] {
				after := w
				after.masters[i].owner = 0
				yield(event{releases, uint8(k), uint8(i)}, after)
			}
			if s.retaking && t.phase == granted && w.masters[i].owner != s.ids[k] {
				after := w
				after.masters[i].owner = s.ids[k]
				yield(event{retakes, uint8(k), uint8(i)}, after)
			}
		}
	}
	for k := range s.ids {
		if s.restores && w.tries[k].phase == granted {
			s.restore(w, k, yield)
		}
	}
	for i := range s.masters {
		if s.forgets {
			after := w
			after.masters[i].master = master{}
			if s.ahead {
				after.masters[i].counter = w.highest() + 1
			}
			if after.masters[i].counter <= s.top {
				yield(event{kind: restarts, master: uint8(i)}, after)
			}
		}
	}
}

// restore has a master take a claim again that a majority has at this moment: what
// the time in the request stands for, since nothing vanishes there before it.
func (s *setup) restore(w world, k int, yield func(event, world)) {
	proven := s.owns(&w, k) >= s.majority()
	if !proven && !s.unproven {
		return
	}
	for i := range s.masters {
		if w.masters[i].owner == s.ids[k] {
			continue
		}
		after := w
		takeAgain(&after.masters[i].master, s.ids[k], w.tries[k].token)
		after.tries[k].back = !proven && s.owns(&after, k) >= s.majority() && s.surpassed(&after, k)
		yield(event{restored, uint8(k), uint8(i)}, after)
	}
}

func (s *setup) begin(w world, k int, yield func(event, world)) {
	t := &w.tries[k]
	t.phase = asking
	for j := range k {
		switch other := &w.tries[j]; {
		case other.phase != granted:
		case s.ids[j] != s.ids[k]:
			t.highWater = max(t.highWater, other.token)
		default: // the same claim, which may have the same token again
			t.highWater = max(t.highWater, other.token-1)
		}
	}
	for t.hint = 0; t.hint <= s.hints; t.hint++ {
		yield(event{begins, uint8(k), t.hint}, w)
	}
}

// take carries a first request out: as the master is, or after its key vanished.
func (s *setup) take(w world, k, i int, yield func(event, world)) {
	if w.masters[i].received[k]&carried != 0 {
		return
	}
	if owner := w.masters[i].owner; owner == 0 || owner == s.ids[k] {
		s.answer(w, k, i, taken, yield)
	}
	if w.masters[i].owner != 0 {
		w.masters[i].owner = 0
		s.answer(w, k, i, retaken, yield)
	}
}

func (s *setup) answer(w world, k, i int, unheard kind, yield func(event, world)) {
	t, m := &w.tries[k], &w.masters[i]
	s.rule.take(&m.master, s.ids[k], t.hint)
	if m.counter > s.top {
		return
	}
	if s.once {
		m.received[k] |= carried
	}
	yield(event{unheard, uint8(k), uint8(i)}, w)
	if t.phase != asking {
		return
	}
	t.top = max(t.top, m.counter)
	if m.stamp > t.token { // a lower one that a majority gave is one where this was not heard
		t.token = m.stamp
		s.demote(&w, k)
	}
	m.receive(k, mine)
	if s.believing || m.stamp != 0 && m.stamp == t.token {
		m.receive(k, acked)
	}
	yield(event{unheard + 1, uint8(k), uint8(i)}, w)
}

// demote makes what was an acknowledgement of a lower number a mere mine.
func (s *setup) demote(w *world, k int) {
	if s.believing {
		return
	}
	for i := range s.masters {
		if m := &w.masters[i]; m.has(k) == acked {
			m.receive(k, mine)
		}
	}
}

// choose closes S, once a majority has said mine.
func (s *setup) choose(w world, k int, yield func(event, world)) {
	enough := s.majority()
	if s.few {
		enough = 1
	}
	if s.count(&w, k, mine) < enough {
		return
	}
	tokens := []uint8{w.tries[k].token}
	if s.count(&w, k, acked) < s.majority() {
		tokens[0] = s.rule.token(w.tries[k].top)
		for token := uint8(1); s.any && token <= s.top; token++ {
			if token != tokens[0] {
				tokens = append(tokens, token)
			}
		}
	}
	for _, token := range tokens {
		s.ask(w, k, token, yield)
	}
}

// ask is the second request for a number.
func (s *setup) ask(w world, k int, token uint8, yield func(event, world)) {
	if token > s.top {
		return
	}
	t := &w.tries[k]
	if token != t.token {
		t.token = token
		s.demote(&w, k)
	}
	t.phase, t.top = raising, 0
	s.grant(&w, k)
	yield(event{chooses, uint8(k), token}, w)
}

func (s *setup) raiseAt(w world, k, i int, yield func(event, world)) {
	before, t, m := w, &w.tries[k], &w.masters[i]
	if m.has(k) == nothing && !s.late {
		return
	}
	if !s.rule.raise(&m.master, s.ids[k], t.token) {
		return
	}
	if w != before {
		yield(event{raised, uint8(k), uint8(i)}, w)
	}
	if t.phase == raising && m.has(k) != acked {
		m.receive(k, acked)
		s.grant(&w, k)
		yield(event{raisedReceived, uint8(k), uint8(i)}, w)
	}
}

// grant grants as soon as a majority has acked. To be granted earlier binds more
// of the others, and later none that it would not bind now.
func (s *setup) grant(w *world, k int) {
	if s.count(w, k, acked) >= s.majority() {
		w.tries[k].phase = granted
		s.demote(w, k) // which of them acked matters no more
	}
}
