package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shrink makes a failing Setup smaller for as long as a run of it still breaks the same
// rule: shorter, with fewer faults, clients, callers and names, with a better network. What
// is left out changes what comes after it, so each smaller Setup is tried with some seeds.
// It returns the smallest one that it found in so many runs.
func Shrink(s Setup, runs int) Setup {
	first := Run(s).Violation
	if first == nil {
		return s
	}
	s.Only = first.Rule
	k := &shrinker{best: s, runs: runs}
	k.take(s, first)
	for before := -1; before != k.size(k.best) && k.runs > 0; {
		before = k.size(k.best)
		k.try(func(t *Setup) { t.For /= 2 })
		fewer(func() []int { return k.best.Clients }, func(cs []int) bool {
			return len(cs) > 0 && k.try(func(t *Setup) { t.Clients = cs })
		})
		fewer(func() []Fault { return k.best.Faults }, func(fs []Fault) bool {
			return k.try(func(t *Setup) { t.Faults = fs })
		})
		k.try(func(t *Setup) { t.Callers = 1 })
		k.try(func(t *Setup) { t.Names = 1 })
		k.try(func(t *Setup) { t.Names /= 2 })
		k.try(func(t *Setup) { t.Network.Lose = 0 })
		k.try(func(t *Setup) { t.Network.Repeat = 0 })
		k.try(func(t *Setup) { t.Network.Slow = 0 })
		k.try(func(t *Setup) { t.Habits.Mixed = false })
		k.try(func(t *Setup) { t.Engine = 0 })
		k.try(func(t *Setup) { t.Drift = 0 })
	}
	return k.best
}

// shrinker is one search for a smaller Setup.
type shrinker struct {
	best Setup
	runs int // that are left
}

// seedsEach is how many seeds each smaller Setup is tried with.
const seedsEach = 8

// try reports whether a smaller Setup fails, and goes on from it then.
func (k *shrinker) try(smaller func(*Setup)) bool {
	t := k.best
	smaller(&t)
	if t.Names == 0 || k.size(t) >= k.size(k.best) {
		return false
	}
	for range seedsEach {
		if k.runs <= 0 {
			return false
		}
		k.runs--
		if v := Run(t).Violation; v != nil {
			k.take(t, v)
			return true
		}
		t.Seed++
	}
	return false
}

// take goes on from a Setup that fails, without what comes after its violation.
func (k *shrinker) take(s Setup, v *Violation) {
	if v.At < s.For {
		s.For = v.At + time.Millisecond
		s.Faults = slices.DeleteFunc(slices.Clone(s.Faults), func(f Fault) bool { return f.At > s.For })
	}
	k.best = s
}

// size is what Shrink makes smaller.
func (k *shrinker) size(s Setup) int {
	n := int(s.For/time.Second) + 20*len(s.Faults) + 100*(len(s.Clients)+s.Callers+s.Names)
	for _, x := range []int{s.Network.Lose, s.Network.Repeat, s.Network.Slow, int(s.Engine), int(s.Drift)} {
		if x != 0 {
			n += 100
		}
	}
	if s.Habits.Mixed {
		n += 100
	}
	return n
}

// fewer leaves out of a list what it does not need to fail: halves, quarters, single ones.
func fewer[T any](now func() []T, fails func([]T) bool) {
	for n := (len(now()) + 1) / 2; n > 0; n /= 2 {
		for at := 0; at < len(now()); {
			list := now()
			if !fails(slices.Concat(list[:at], list[min(at+n, len(list)):])) {
				at += n
			}
		}
	}
}

// Explain is a Setup and what happened in it, the last lines at most.
func Explain(s Setup, lines int) string {
	var said []string
	v := Tell(s, func(line string) {
		if said = append(said, line); len(said) > 2*lines {
			said = slices.Delete(said, 0, lines)
		}
	}).Violation
	if len(said) > lines {
		said = said[len(said)-lines:]
	}
	return fmt.Sprintf("%v\n%+v\n%s", v, s, strings.Join(said, "\n"))
}
