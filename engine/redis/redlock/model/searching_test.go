package model

import (
	"math"
	"slices"
	"testing"
)

// Jugs of 3 and 5 litres, to measure 4: 16 states, and a shortest way of 6 steps.
var jugs = system[[2]int, string]{
	next: func(s [2]int, yield func(string, [2]int)) {
		a, b := s[0], s[1]
		yield("fill 3", [2]int{3, b})
		yield("fill 5", [2]int{a, 5})
		yield("empty 3", [2]int{0, b})
		yield("empty 5", [2]int{a, 0})
		yield("3 into 5", [2]int{a - min(a, 5-b), b + min(a, 5-b)})
		yield("5 into 3", [2]int{a + min(b, 3-a), b - min(b, 3-a)})
	},
	alike: func(s [2]int) [2]int { return s },
}

func TestSearchSeesEveryState(t *testing.T) {
	sys := jugs
	sys.wrong = func([2]int) string { return "" }
	if f := search(sys, 1000); f.states != 16 || f.steps != 16*6 || !f.all {
		t.Errorf("%+v, want 16 states of 6 steps each, and all of them", f)
	}
	if f := search(sys, 10); f.all || f.states < 10 {
		t.Errorf("%+v, want an end at 10 states, and not all of them", f)
	}
}

func TestSearchFindsAShortestSchedule(t *testing.T) {
	sys := jugs
	sys.wrong = func(s [2]int) string {
		if s[1] == 4 {
			return "4 litres"
		}
		return ""
	}
	want := []string{"fill 5", "5 into 3", "empty 3", "5 into 3", "fill 5", "5 into 3"}
	if f := search(sys, 1000); f.wrong != "4 litres" || !slices.Equal(f.schedule, want) {
		t.Errorf("%+v, want %q", f, want)
	}
}

// Sorting must join all states that differ in names only.
func TestAlikeJoins(t *testing.T) {
	s := setup{rule: oneRound, masters: 3, ids: []id{1, 2}, top: 2}
	kinds := map[world]bool{s.alike(s.system(s.wrong).start): true}
	each := s.system(func(w world) string {
		kinds[s.alike(w)] = true
		return ""
	})
	each.alike = func(w world) world { return w }
	all, sorted := search(each, math.MaxInt32), search(s.system(s.wrong), math.MaxInt32)
	if sorted.states != len(kinds) || all.states < 4*sorted.states {
		t.Errorf("%d states of %d kinds; sorted %d", all.states, len(kinds), sorted.states)
	}
}

// And none that is wrong with one that is not: it would not be looked at.
func TestAlikeHidesNothing(t *testing.T) {
	s := setup{rule: oneRound, masters: 3, ids: []id{1, 2}, top: 2, forgets: true}
	kinds, both := map[world]bool{}, map[bool]bool{}
	each := s.system(func(w world) string {
		wrong, kind := s.wrong(w) != "", s.alike(w)
		if before, known := kinds[kind]; known && before != wrong {
			t.Fatalf("wrong: %v, and alike one that is not so: %+v", wrong, w)
		}
		kinds[kind], both[wrong] = wrong, true
		return ""
	})
	each.alike = func(w world) world { return w }
	search(each, 100_000)
	if len(both) != 2 {
		t.Errorf("of the wrong and the right there were %v", both)
	}
}
