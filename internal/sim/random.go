package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Drift is how wrong the rate of a clock may be: two of them then differ by 1 %, and no
// more is promised (docs/design.md, section 4).
const Drift = 4950

// Random is the Setup of a seed: a few clients and names, any policy, all faults.
func Random(seed uint64) Setup {
	r := rand.New(rand.NewPCG(seed, 1))
	return Storm(seed, Policies[r.IntN(len(Policies))], 2+r.IntN(7), 1+r.IntN(6), 10*time.Minute)
}

// Storm is a run with every fault that is promised to be survived: each client is struck
// about once a minute.
func Storm(seed uint64, p Policy, clients, names int, d time.Duration) Setup {
	r := rand.New(rand.NewPCG(seed, 2))
	s := Setup{
		Seed: seed, Policy: p, For: d, Clients: numbers(clients), Callers: 1 + r.IntN(3), Names: names, TTL: 10 * time.Second,
		Habits:  Habits{Think: 2 * time.Second, Hold: time.Second, Mixed: true},
		Network: Network{Delay: 2 * time.Millisecond, Lose: 50, Repeat: 20, Slow: 20},
		Drift:   Drift,
	}
	if r.IntN(3) == 0 {
		s.TTL = 3 * time.Second
	}
	if r.IntN(3) == 0 {
		s.Network.Delay = 200 * time.Microsecond
	}
	s.Engine = (&world{Setup: s}).drift(r)
	s.Faults = s.faults(rand.New(rand.NewPCG(seed, 3)), time.Minute)
	return s
}

func numbers(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// faults are the faults of a run: each client is struck so often on average, the engine a
// third as often, or four times if it may forget.
func (s *Setup) faults(r *rand.Rand, every time.Duration) []Fault {
	var fs []Fault
	for _, c := range s.Clients {
		for range int(s.For / every) {
			f := Fault{At: upTo(r, s.For), Client: c, Kind: []Kind{Cut, Cut, CutThere, CutBack, Interrupt, Stop, Suspend, Kill, WallStep}[r.IntN(9)]}
			if f.Kind.lasts() {
				f.For = upTo(r, 2*s.TTL)
			}
			if f.Kind == Kill {
				f.For = upTo(r, 2*time.Second)
			}
			fs = append(fs, f)
		}
	}
	strikes := int(s.For / (3 * every))
	if s.Policy.mayDouble() {
		strikes = int(4 * s.For / every) // most of them do no harm
	}
	for range strikes {
		f := Fault{At: upTo(r, s.For), Client: -1, Kind: Down, For: upTo(r, 5*time.Second)}
		switch r.IntN(4) {
		case 0:
			f.Kind, f.Name, f.For = Revoke, r.IntN(s.Names), 0
		case 1, 2:
			switch s.Policy {
			case Forgets:
				f.Kind, f.For = Forget, 0
			case FailsOver:
				f.Kind, f.For = FailOver, upTo(r, 3*time.Second)
			case Notifies, Polls, NoOrder:
				f.Kind, f.For = StepBack, upTo(r, 3*s.TTL)
			}
		}
		fs = append(fs, f)
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return fs
}
