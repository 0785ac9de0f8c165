package deadlock

import (
	"iter"

	"leasehold/engine"
)

// conflict: c, ahead of f in its queue, can keep f waiting. Shared claims do not
// keep each other waiting; any permit may be the one that is missing.
func conflict(c, f *claim) bool {
	return f.Limit != engine.Max || int64(c.Permits)+int64(f.Permits) > engine.Max
}

func (s *Search) find(k Key, ticket uint64) *claim {
	if l := s.queues[k]; l != nil {
		return l.tickets[ticket]
	}
	return nil
}

// eachPlace is where a hold that c names may be: in the engine that c is in, or, if
// it says so, in any that is known.
func (s *Search) eachPlace(c *claim, h engine.Hold, f func(Key)) {
	if !h.Elsewhere {
		f(Key{c.queue.key.Engine, h.Name})
		return
	}
	for e := range s.engines {
		f(Key{e, h.Name})
	}
}

// holds is the held claims that c names, as far as they were read, with what it says
// of each. One elsewhere has to be of the same process: tickets are unique in one
// engine only.
func (s *Search) holds(c *claim) iter.Seq2[*claim, engine.Hold] {
	return func(yield func(*claim, engine.Hold) bool) {
		more := true
		for _, h := range c.Owner.Holds {
			s.eachPlace(c, h, func(k Key) {
				o := s.find(k, h.Ticket)
				if more && o != nil && o.State == engine.Held && (!h.Elsewhere || o.Owner.Host == c.Owner.Host && o.Owner.PID == c.Owner.PID) {
					more = yield(o, h)
				}
			})
		}
	}
}

// held is holds without what is said of them.
func (s *Search) held(c *claim) (held []*claim) {
	for o := range s.holds(c) {
		held = append(held, o)
	}
	return held
}

// namedBy is held for all of in, the other way round.
func (s *Search) namedBy(in set) map[*claim][]*claim {
	by := map[*claim][]*claim{}
	for c := range in {
		for _, h := range s.held(c) {
			by[h] = append(by[h], c)
		}
	}
	return by
}

// blockedBy is every claim that waits for from, directly or not, and from itself;
// of those in, unless that is nil.
//
// In a queue it is enough to know the first that waits for a claim: those behind that
// one wait for it in their turn. So each queue is gone through once.
func (s *Search) blockedBy(from *claim, in set) set {
	seen, todo := set{from: true}, []*claim{from}
	done := map[*line]int{} // from there on all are seen
	behind := func(c *claim) {
		l := c.queue
		end, ok := done[l]
		if !ok {
			end = len(l.claims)
		}
		first := c.at + 1
		for ; first < end; first++ {
			if f := l.claims[first]; f.State == engine.Waiting && (in == nil || in[f]) && conflict(c, f) {
				break
			}
		}
		if first >= end {
			return
		}
		done[l] = first
		for _, f := range l.claims[first:end] {
			if f.State == engine.Waiting && (in == nil || in[f]) && !seen[f] {
				seen[f] = true
				todo = append(todo, f)
			}
		}
	}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		behind(c)
		for _, h := range s.held(c) {
			behind(h)
		}
	}
	return seen
}

// stuck is the largest part of in whose claims have no room even when everybody
// else has left.
func (s *Search) stuck(in set) set {
	stuck := set{}
	lines := map[*line]bool{}
	for c := range in {
		stuck[c] = true
		lines[c.queue] = true
	}
	names := s.namedBy(in)
	kept := func(h *claim) bool {
		for _, c := range names[h] {
			if stuck[c] {
				return true
			}
		}
		return false
	}
	for changed := true; changed; {
		changed = false
		for l := range lines {
			permits := int64(0) // of stuck claims so far
			for _, c := range l.claims {
				if stuck[c] && permits+int64(c.Permits) <= int64(c.Limit) {
					delete(stuck, c)
					changed = true
				}
				if stuck[c] || c.State == engine.Held && kept(c) {
					permits += int64(c.Permits)
				}
			}
		}
	}
	return stuck
}

// cycleOf is the claims of in that wait for from and that from waits for.
func (s *Search) cycleOf(from *claim, in set) set {
	back := s.blockedBy(from, in)
	names := s.namedBy(in)
	cycle, todo := set{from: true}, []*claim{from}
	done := map[*line]int{} // up to there all are seen
	add := func(c *claim) {
		if back[c] && !cycle[c] {
			cycle[c] = true
			todo = append(todo, c)
		}
	}
	for len(todo) > 0 {
		f := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		l, first := f.queue, done[f.queue]
		last := f.at - 1
		for ; last >= first; last-- {
			if c := l.claims[last]; (in[c] || len(names[c]) > 0) && conflict(c, f) {
				break
			}
		}
		// Those ahead of the last that f waits for, that one waits for.
		for at := first; at <= last; at++ {
			add(l.claims[at])
			for _, o := range names[l.claims[at]] {
				add(o)
			}
		}
		done[l] = max(first, last+1)
	}
	return cycle
}
