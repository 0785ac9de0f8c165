package model

import (
	"flag"
	"math"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
)

var states = flag.Int("model.states", 100_000, "look at so many states of each world, and with -short at 20,000 at most; 0: at all of them")

func (r rule) raising(raise func(*master, id, uint8) bool) rule {
	r.raise = raise
	return r
}

func (s *setup) limit() int {
	switch {
	case *states != 0 && testing.Short():
		return min(*states, 20_000)
	case *states != 0:
		return *states
	case s.most != 0:
		return s.most
	}
	return math.MaxInt32
}

func TestTokensRise(t *testing.T) {
	for _, c := range []struct {
		name string
		setup
	}{
		{"two rounds, 3 masters, 3 claims", setup{rule: twoRounds, masters: 3, ids: []id{1, 2, 3}, top: 9}},
		{"two rounds, 5 masters, 2 claims", setup{rule: twoRounds, masters: 5, ids: []id{1, 2}, top: 9}},
		{"two rounds, one of 2 claims tried again", setup{rule: twoRounds, masters: 3, ids: []id{1, 2, 1}, top: 9}},
		{"two rounds, releases", setup{rule: twoRounds, masters: 3, ids: []id{1, 2}, top: 9, releases: true}},
		{"two rounds, late masters count", setup{rule: twoRounds, masters: 3, ids: []id{1, 2}, top: 9, late: true}},
		{"two rounds, S of any size", setup{rule: twoRounds, masters: 3, ids: []id{1, 2}, top: 9, few: true, late: true}},
		{"two rounds, restarts above every number", setup{rule: twoRounds, masters: 3, ids: []id{1, 2}, top: 4, forgets: true, ahead: true}},
		{"two rounds, the counter alone decides", setup{rule: twoRounds.raising(raiseBelow), masters: 3, ids: []id{1, 2}, top: 9, late: true}},
		{"two rounds, the owner alone, nothing repeated", setup{rule: twoRounds.raising(raiseIfOwned), masters: 3, ids: []id{1, 2}, top: 9, once: true}},

		{"one round, 3 masters, 3 claims", setup{rule: oneRound, masters: 3, ids: []id{1, 2, 3}, top: 4}},
		{"one round, 5 masters, 2 claims", setup{rule: oneRound, masters: 5, ids: []id{1, 2}, top: 4}},
		{"one round, the first claim tried twice", setup{rule: oneRound, masters: 3, ids: []id{1, 1, 2}, top: 4}},
		{"one round, the first claim tried again", setup{rule: oneRound, masters: 3, ids: []id{1, 2, 1}, top: 4}},
		{"one round, the second claim tried twice", setup{rule: oneRound, masters: 3, ids: []id{1, 2, 2}, top: 4}},
		{"one round, hints, late masters count", setup{rule: oneRound, masters: 3, ids: []id{1, 2, 3}, top: 3, hints: 2, late: true}},
		{"one round, hints, 5 masters", setup{rule: oneRound, masters: 5, ids: []id{1, 2}, top: 3, hints: 2, late: true}},
		{"one round, S of any size", setup{rule: oneRound, masters: 3, ids: []id{1, 2}, top: 5, few: true, late: true}},
		{"one round, releases", setup{rule: oneRound, masters: 3, ids: []id{1, 2}, top: 5, releases: true}},
		{"one round, restarts above every number", setup{rule: oneRound, masters: 3, ids: []id{1, 2}, top: 5, forgets: true, ahead: true}},
		{"proposing, 3 masters, 2 claims", setup{rule: proposing, masters: 3, ids: []id{1, 2}, top: 4, hints: 3, late: true}},
		{"proposing, 3 masters, 3 claims", setup{rule: proposing, masters: 3, ids: []id{1, 2, 3}, top: 3, hints: 2, most: 5_000_000}},
		{"proposing, one of 2 claims tried again", setup{rule: proposing, masters: 3, ids: []id{1, 2, 1}, top: 3, hints: 2, most: 5_000_000}},
		{"proposing, 5 masters, 2 claims", setup{rule: proposing, masters: 5, ids: []id{1, 2}, top: 3, hints: 2, most: 5_000_000}},
		{"proposing, restarts above every number", setup{rule: proposing, masters: 3, ids: []id{1, 2}, top: 3, hints: 2, forgets: true, ahead: true}},
		{"proposing, lost masters taken again, 2 claims", setup{rule: proposing, masters: 3, ids: []id{1, 2}, top: 3, hints: 2, restores: true}},
		{"proposing, lost masters taken again, one tried again", setup{rule: proposing, masters: 3, ids: []id{1, 2, 1}, top: 3, hints: 2, restores: true, most: 5_000_000}},
		{"proposing, lost masters taken again, restarts above every number", setup{rule: proposing, masters: 3, ids: []id{1, 2}, top: 3, hints: 2, restores: true, forgets: true, ahead: true}},
		{"proposing, any number is asked for, 2 claims", setup{rule: proposing, masters: 3, ids: []id{1, 2}, top: 3, hints: 2, any: true}},
		{"proposing, any number is asked for, one tried again", setup{rule: proposing, masters: 3, ids: []id{1, 2, 1}, top: 3, hints: 2, any: true, most: 5_000_000}},
		{"one round, a raise that was acked refused", setup{rule: oneRound.raising(raiseOwnedBelow), masters: 3, ids: []id{1, 2}, top: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, began := c.setup, time.Now()
			f := search(s.system(s.wrong), s.limit())
			if f.wrong != "" {
				t.Errorf("%s:\n%s", f.wrong, s.print(f.schedule))
			}
			if *states == 0 && s.most == 0 && !f.all {
				t.Error("more states than one search can number")
			}
			t.Logf("%d states, %d steps, depth %d, all of them: %v, %.1f s", f.states, f.steps, f.depth, f.all, time.Since(began).Seconds())
		})
	}
}

// Each of these rules is wrong, and the search says by which schedule.
func TestWrongRulesFail(t *testing.T) {
	for _, c := range []struct {
		name string
		setup
		steps int // of the shortest schedule
		wrong string
	}{
		{"one phase: each master counts, the highest wins", setup{rule: oneRound, believing: true}, 8, "A and B are both granted 2"},
		{"equal counters believed that nobody wrote", setup{rule: rule{takeGuessing, next, raiseOwnedBelow}}, 8, "B began after token 1 was granted, and is granted 1"},

		{"two rounds: the owner alone, first requests repeated", setup{rule: twoRounds.raising(raiseIfOwned)}, 13, "A and B are both granted 1"},
		{"two rounds: the owner alone, acks from outside S", setup{rule: twoRounds.raising(raiseIfOwned), once: true, late: true}, 13, "A and B are both granted 1"},
		{"two rounds: a number acked twice", setup{rule: twoRounds.raising(raiseUpTo)}, 13, "A and B are both granted 1"},
		{"two rounds: masters forget", setup{rule: twoRounds, forgets: true}, 13, "B began after token 1 was granted, and is granted 1"},

		{"one round: the owner alone", setup{rule: oneRound.raising(raiseIfOwned)}, 12, "A and B are both granted 2"},
		{"one round: the counter alone", setup{rule: oneRound.raising(raiseAnybodys)}, 10, "A and B are both granted 2"},
		{"one round: a renewal that takes", setup{rule: oneRound, retaking: true, ids: []id{1, 2, 1}}, 13, "A and B are both granted 1"},
		{"proposing: taken again without a proof", setup{rule: proposing, restores: true, unproven: true, hints: 2}, 9, "A was lost, another was granted more, and A has a majority again"},
		{"proposing: a counter that is far ahead is put right", setup{rule: proposing.raising(raiseMending), any: true, hints: 2}, 11, "B began after token 3 was granted, and is granted 1"},
		{"proposing: the owner alone", setup{rule: proposing.raising(raiseIfOwned), hints: 2}, 11, "A and B are both granted 1"},
		{"proposing: a new owner keeps the stamp", setup{rule: rule{takeKeeping, next, raiseStamped}, hints: 2}, 8, "A and B are both granted 1"},
		{"proposing: masters forget", setup{rule: proposing, forgets: true, hints: 2}, 9, "B began after token 1 was granted, and is granted 1"},
		{"one round: masters forget", setup{rule: oneRound, forgets: true}, 9, "B began after token 1 was granted, and is granted 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.retaking && testing.Short() {
				servers.LeftOut(t, "it takes 5 s")
			}
			s := c.setup
			s.masters, s.top = 3, 3
			if s.ids == nil {
				s.ids = []id{1, 2}
			}
			f := search(s.system(s.wrong), 5_000_000)
			if f.wrong != c.wrong || len(f.schedule) != c.steps {
				t.Errorf("want %q after %d steps", c.wrong, c.steps)
			}
			t.Logf("%q after %d steps:\n%s", f.wrong, len(f.schedule), s.print(f.schedule))
		})
	}
}

// In a world where nothing can happen nothing goes wrong. So: what has to be
// possible, and what is not promised.
func TestReached(t *testing.T) {
	two := setup{masters: 3, ids: []id{1, 2}, top: 4}
	again := setup{masters: 3, ids: []id{1, 1}, top: 4}
	both := func(w world) bool {
		return w.tries[0].phase == granted && w.tries[1].phase == granted
	}
	for _, c := range []struct {
		name string
		setup
		rule rule
		when func(w world) bool
	}{
		{"two rounds: both granted", two, twoRounds, both},
		{"one round: both granted", two, oneRound, both},
		{"two rounds: a grant that ends later has a lower token", two, twoRounds, func(w world) bool {
			return both(w) && w.tries[1].token < w.tries[0].token && w.tries[0].highWater == 0 && w.tries[1].highWater == 0
		}},
		{"one round: a claim tried again has its token again", again, oneRound, func(w world) bool {
			return both(w) && w.tries[0].token == w.tries[1].token
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.setup
			s.rule = c.rule
			f := search(s.system(func(w world) string {
				if c.when(w) {
					return "reached"
				}
				return ""
			}), 5_000_000)
			if f.wrong == "" {
				t.Error("never reached")
			}
			t.Log("\n" + s.print(f.schedule))
		})
	}
}

// Where masters agree, the one round is all there is.
func TestOneRoundIsEnough(t *testing.T) {
	s := setup{rule: oneRound, masters: 5, ids: []id{1}, top: 4}
	f := search(s.system(func(w world) string {
		if w.tries[0].phase == granted {
			return "granted"
		}
		return ""
	}), 100_000)
	if got := s.print(f.schedule); strings.Contains(got, "raised") || len(f.schedule) != 5 {
		t.Errorf("want 1 beginning, 3 answers and the grant, not\n%s", got)
	}
}
