package model

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	mostMasters = 5
	mostTries   = 3
)

// A setup is one world to explore.
type setup struct {
	rule
	masters int
	ids     []id  // of each try; tries of one id are one claim, tried again
	top     uint8 // counters above it are not explored
	most    int   // of its states that are explored; 0: all

	hints     uint8 // a try sends any number up to this with its first request
	releases  bool  // owners delete their keys, at any later moment
	late      bool  // masters that say mine after S was closed are raised, and count
	believing bool  // every mine is an ack
	few       bool  // S may be any one master
	any       bool  // a try asks for any number, not for one above the highest answer only
	once      bool  // no request is carried out twice
	forgets   bool  // masters restart and know nothing
	ahead     bool  // ... but begin above every number there was
	retaking  bool  // a renewal takes a master whose key has vanished, and leaves it its stamp
	restores  bool  // a renewal that a majority proves has masters take it again
	unproven  bool  // ... and one that none proves
}

// world is a state: the masters, and what the clients know.
type world struct {
	masters [mostMasters]column
	tries   [mostTries]try
}

// column is a master, and what each try has heard from it.
type column struct {
	master
	received [mostTries]uint8
}

// What a try has heard from a master.
const (
	nothing uint8 = 0
	mine    uint8 = 1
	acked   uint8 = 2
	carried uint8 = 4 // once: its first request was carried out
)

type phase uint8

const (
	idle phase = iota
	asking
	raising
	granted
)

// A try is one attempt of a client to take the name. A client that has crashed is
// one that does nothing more, which every step allows; its requests may still be
// carried out.
type try struct {
	phase     phase
	hint      uint8
	top       uint8 // the highest counter it was answered
	token     uint8 // the highest stamp it was answered; what it asks for, or was granted
	highWater uint8 // its token has to be higher
	back      bool  // it had no majority, and had one again after somebody else was granted more
}

func (s *setup) majority() int { return s.masters/2 + 1 }

func (w *world) highest() (top uint8) {
	for _, m := range w.masters {
		top = max(top, m.counter)
	}
	for _, t := range w.tries {
		top = max(top, t.token)
	}
	return top
}

func (c *column) has(k int) uint8           { return c.received[k] &^ carried }
func (c *column) receive(k int, what uint8) { c.received[k] = c.received[k]&carried | what }

func (s *setup) count(w *world, k int, what uint8) (n int) {
	for i := range s.masters {
		if w.masters[i].has(k) >= what {
			n++
		}
	}
	return n
}

// owns is how many masters have the claim of a try.
func (s *setup) owns(w *world, k int) (n int) {
	for i := range s.masters {
		if w.masters[i].owner == s.ids[k] {
			n++
		}
	}
	return n
}

// surpassed: another claim was granted more.
func (s *setup) surpassed(w *world, k int) bool {
	for j := range s.ids {
		if other := &w.tries[j]; other.phase == granted && s.ids[j] != s.ids[k] && other.token > w.tries[k].token {
			return true
		}
	}
	return false
}

// wrong is the property.
func (s *setup) wrong(w world) string {
	for k := range s.ids {
		t := &w.tries[k]
		if t.phase != granted {
			continue
		}
		if t.back {
			return fmt.Sprintf("%s was lost, another was granted more, and %s has a majority again", s.name(k), s.name(k))
		}
		if t.token <= t.highWater {
			return fmt.Sprintf("%s began after token %d was granted, and is granted %d", s.name(k), t.highWater, t.token)
		}
		for j := range k {
			if other := &w.tries[j]; other.phase == granted && other.token == t.token && s.ids[j] != s.ids[k] {
				return fmt.Sprintf("%s and %s are both granted %d", s.name(j), s.name(k), t.token)
			}
		}
	}
	return ""
}

// alike sorts the masters: which of them is called m1 changes nothing. Nor does the
// floor of a try that was granted more.
func (s *setup) alike(w world) world {
	for k := range w.tries {
		if t := &w.tries[k]; t.phase == granted && t.token > t.highWater {
			t.highWater = 0
		}
	}
	slices.SortFunc(w.masters[:s.masters], func(a, b column) int {
		return cmp.Compare(a.key(), b.key())
	})
	return w
}

func (c column) key() uint64 {
	key := uint64(c.owner)<<16 | uint64(c.counter)<<8 | uint64(c.stamp)
	for _, received := range c.received {
		key = key<<8 | uint64(received)
	}
	return key
}

func (s *setup) system(wrong func(world) string) system[world, event] {
	return system[world, event]{next: s.next, alike: s.alike, wrong: wrong}
}
