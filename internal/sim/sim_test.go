package sim

import (
	"flag"
	"testing"
	"time"

	"leasehold/internal/claims"
)

var (
	seeds   = flag.Int("sim.seeds", 60, "run so many seeds")
	oneSeed = flag.Uint64("sim.seed", 0, "run this seed only, and tell what happens at its end")
)

// explain shrinks what went wrong, and prints it.
func explain(t *testing.T, s Setup, v *Violation) {
	t.Helper()
	small := Shrink(s, 1000)
	t.Fatalf("-sim.seed %d: %v\nthe smallest run that was found:\n%s", s.Seed, v, Explain(small, 100))
}

func TestSeeds(t *testing.T) {
	first, last := uint64(1), uint64(*seeds)
	if testing.Short() {
		last = (last + 2) / 3
	}
	if *oneSeed > 0 {
		first, last = *oneSeed, *oneSeed
	}
	var all Counts
	overlaps := map[Policy]int{}
	for seed := first; seed <= last; seed++ {
		s := Random(seed)
		r := Run(s)
		if r.Violation != nil {
			explain(t, s, r.Violation)
		}
		all.Events += r.Events
		all.Grants += r.Grants
		all.Losses += r.Losses
		all.Faults += r.Faults
		overlaps[s.Policy] += r.Overlaps
		all.Handoffs += r.Handoffs
		all.GaveUp += r.GaveUp
		for i, n := range r.Lost {
			all.Lost[i] += n
			all.Unlocks[i] += r.Unlocks[i]
		}
		for i, n := range r.Struck {
			all.Struck[i] += n
		}
	}
	if *oneSeed == 0 {
		checkStrong(t, &all)
	}
	t.Logf("%d seeds: %d events, %d faults, %d leases, %d lost; overlaps: %v", last-first+1, all.Events, all.Faults, all.Grants, all.Losses, overlaps)
}

// checkStrong: all that can happen did, or the runs say nothing about it.
func checkStrong(t *testing.T, all *Counts) {
	t.Helper()
	if all.Handoffs == 0 || all.GaveUp == 0 {
		t.Errorf("%d handoffs, %d callers gave up", all.Handoffs, all.GaveUp)
	}
	for _, why := range []claims.Reason{claims.Revoked, claims.Expired, claims.NotRenewed, claims.Stopped, claims.Deleted, claims.MaxHold} {
		if all.Lost[why] == 0 {
			t.Errorf("no lease was lost: %v", why)
		}
	}
	for _, why := range []claims.Reason{claims.OK, claims.Expired, claims.Unknown} {
		if all.Unlocks[why] == 0 {
			t.Errorf("no Unlock said: %v", why)
		}
	}
	for i, n := range all.Struck {
		if kind := Kind(i); n == 0 && kind != Freeze {
			t.Errorf("nothing was struck: %v", kind)
		}
	}
}

func TestASeedIsTheSameRunEachTime(t *testing.T) {
	hashes := map[uint64]Policy{}
	for _, p := range Policies {
		s := Storm(7, p, 4, 3, 5*time.Minute)
		first, again := Run(s), Run(s)
		if first.Hash != again.Hash || first.Counts != again.Counts {
			t.Errorf("%v: the same seed is another run:\n%x %+v\n%x %+v", p, first.Hash, first.Counts, again.Hash, again.Counts)
		}
		told := 0
		if r := Tell(s, func(string) { told++ }); r.Hash != first.Hash || told == 0 {
			t.Errorf("%v: told (%d lines), the run is another", p, told)
		}
		if other, same := hashes[first.Hash]; same {
			t.Errorf("%v is the same run as %v", p, other)
		}
		hashes[first.Hash] = p
		s.Seed++
		if other := Run(s); other.Hash == first.Hash {
			t.Errorf("%v: another seed is the same run", p)
		}
	}
}

// An engine that declares that it may grant twice does so: a trial in which that is not
// seen would be too weak to say anything of the others.
func TestWhatIsDeclaredIsSeen(t *testing.T) {
	for _, p := range Policies {
		n := 0
		for seed := uint64(1); seed <= 10; seed++ {
			s := Storm(seed, p, 6, 16, 20*time.Minute)
			r := Run(s)
			if r.Violation != nil {
				explain(t, s, r.Violation)
			}
			n += r.Overlaps
		}
		t.Logf("%v: %d overlaps", p, n)
		if p.mayDouble() != (n > 0) {
			t.Errorf("an engine that %v: %d leases overlapped", p, n)
		}
	}
}

// found runs seeds until one breaks the rule, and returns how many that took.
func found(t *testing.T, rule Rule, most uint64, broken func(*Setup)) Setup {
	t.Helper()
	for seed := uint64(1); seed <= most; seed++ {
		s := Storm(seed, Notifies, 4, 1, 10*time.Minute)
		s.Only = rule
		broken(&s)
		if v := Run(s).Violation; v != nil {
			t.Logf("seed %d: %v", seed, v)
			return s
		}
	}
	t.Fatalf("%d seeds break no rule", most)
	panic("unreachable")
}

const findWithin = 5 // seeds

func TestAMarginOfZeroIsFound(t *testing.T) {
	found(t, Exclusion, findWithin, func(s *Setup) { s.Broken = NoMargin })
}

func TestAClockRateOf102IsFound(t *testing.T) {
	found(t, Exclusion, findWithin, func(s *Setup) { s.Engine, s.Drift = 20_000, 0 })
}

func TestTrustFromTheAnswerIsFound(t *testing.T) {
	found(t, Exclusion, findWithin, func(s *Setup) { s.Broken, s.Network.Slow = FromAnswer, 500 })
}

func TestAFrozenClockIsFound(t *testing.T) {
	found(t, Exclusion, findWithin, func(s *Setup) {
		for i := range s.Faults {
			if s.Faults[i].Kind == Stop {
				s.Faults[i].Kind = Freeze
			}
		}
	})
}

// The margin that a broken client leaves out is the one that machines keep.
func TestTheMarginIsThatOfTheMachine(t *testing.T) {
	ends := func(b Broken) time.Duration {
		w := newWorld(Setup{Seed: 1, For: time.Minute, Clients: numbers(1), Callers: 1, Names: 1, TTL: 10 * time.Second,
			Habits: Habits{Think: time.Second, Hold: time.Hour}, Network: Network{Delay: time.Millisecond}, Broken: b})
		for len(w.lots[0].holds) == 0 && w.now < 10*time.Second {
			w.until(w.now + time.Millisecond)
		}
		if len(w.lots[0].holds) == 0 {
			t.Fatal("nothing was granted")
		}
		return w.lots[0].holds[0].lease.Ends()
	}
	if got := ends(NoMargin) - ends(Nothing); got != margin(claims.FirstTTL) {
		t.Errorf("the machine keeps %v of %v, the simulation leaves out %v", got, claims.FirstTTL, margin(claims.FirstTTL))
	}
}

func TestAFailingSeedShrinks(t *testing.T) {
	s := found(t, Exclusion, findWithin, func(s *Setup) { s.Broken = NoMargin })
	small := Shrink(s, 1000)
	v := Run(small).Violation
	if v == nil || v.Rule != Exclusion {
		t.Fatalf("what is left does not fail: %v", v)
	}
	t.Logf("%s", Explain(small, 40))
	if len(small.Clients) != 2 || len(small.Faults) > 2 || small.For > time.Minute {
		t.Errorf("%d clients, %d faults, %v", len(small.Clients), len(small.Faults), small.For)
	}
}
