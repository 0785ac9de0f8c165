package sim

import (
	"math/rand/v2"
	"time"
)

// These are the large runs. What they take is in the package documentation.

// OneQueue is many clients that want one name, for a while. Nothing goes wrong.
func OneQueue(clients int, d time.Duration) Setup {
	return Setup{
		Seed: 1, Policy: Notifies, For: d, Clients: numbers(clients), Callers: 1, Names: 1, TTL: 30 * time.Second,
		Habits:  Habits{Think: 100 * time.Millisecond, Hold: 5 * time.Millisecond},
		Network: Network{Delay: time.Millisecond}, Drift: Drift,
	}
}

// Leases is ten clients that hold many names to the end. Nothing goes wrong.
func Leases(leases int, ttl, d time.Duration) Setup {
	return Setup{
		Seed: 1, Policy: Notifies, For: d, Clients: numbers(10), Callers: (leases + 9) / 10, TTL: ttl,
		Habits:  Habits{Think: 30 * time.Second, Own: true},
		Network: Network{Delay: time.Millisecond}, Drift: Drift,
	}
}

// Fleet is many clients and many names under every fault that is promised to be survived:
// each client is struck about every ten minutes.
func Fleet(seed uint64, p Policy, clients, names int, d time.Duration) Setup {
	s := Storm(seed, p, clients, names, d)
	s.Callers = 2
	s.Habits.Think = 30 * time.Second
	s.Faults = s.faults(rand.New(rand.NewPCG(seed, 3)), 10*time.Minute)
	return s
}
