package model

import "hash/maphash"

// A system is what search explores: a state to begin with, and every step that
// can follow a state.
type system[S, E comparable] struct {
	start S
	// next calls yield with each step that can follow s, and the state after it. An
	// event names its step wholly: what follows s by the same event is the same.
	next func(s S, yield func(E, S))
	// alike returns one state for all that differ in names only.
	alike func(S) S
	// wrong says what is wrong in s, or nothing.
	wrong func(s S) string
}

// found is what a search saw.
type found[E comparable] struct {
	states, steps, depth int
	all                  bool   // no state is left
	wrong                string // what is wrong after schedule, or nothing
	schedule             []E    // the shortest that leads there
}

// search explores breadth first, until something is wrong, limit states were seen
// or none is left.
//
// A state is known by a hash of 64 bits and kept only while its level is explored:
// 8 bytes for the way to it and some 20 for the hash. Two states of n that share
// a hash are taken for one, with probability n^2 / 2^65: below 10^-4 at
// n = 50,000,000, and over again with another seed in the next run.
func search[S, E comparable](sys system[S, E], limit int) (f found[E]) {
	type node struct {
		parent int32
		event  E
	}
	type reached struct {
		at    int32
		state S
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{maphash.Comparable(seed, sys.alike(sys.start)): {}}
	nodes := make([]node, 1, 1024)
	level, below := []reached{{0, sys.start}}, []reached(nil)
	for ; len(level) > 0; f.depth++ {
		for _, from := range level {
			sys.next(from.state, func(e E, s S) {
				f.steps++
				h := maphash.Comparable(seed, sys.alike(s))
				if _, known := seen[h]; known || f.wrong != "" {
					return
				}
				seen[h] = struct{}{}
				nodes = append(nodes, node{from.at, e})
				below = append(below, reached{int32(len(nodes) - 1), s})
				f.wrong = sys.wrong(s)
			})
			if f.states = len(nodes); f.wrong != "" || f.states >= limit {
				if f.wrong != "" {
					for n := int32(len(nodes) - 1); n > 0; n = nodes[n].parent {
						f.schedule = append([]E{nodes[n].event}, f.schedule...)
					}
				}
				return f
			}
		}
		level, below = below, level[:0]
	}
	f.all = true
	return f
}
