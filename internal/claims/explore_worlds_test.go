package claims

import (
	"time"

	"leasehold/engine"
)

// worlds is what is explored: each is small, and about one thing. What is found
// in more than one is found soonest in the one with the fewest other steps.
func worlds() []*setup {
	return []*setup{
		{
			name:    "nothing goes wrong",
			clients: clients(of(lock("x"), lock("x")), of(lock("x"))),
			quits:   1, seen: 40_000, tests: 10,
		},
		{
			name:    "calls go wrong",
			clients: clients(of(lock("x")), of(lock("x"))),
			faults:  2, kinds: loseRequest | loseAnswer | straggle | slow | refuse,
			seen: 40_000, tests: 10,
		},
		{
			name:    "a Join arrives twice",
			clients: clients(of(lock("x")), of(lock("x"))),
			faults:  2, kinds: straggle | slow,
			seen: 60_000, tests: 10,
		},
		{
			name:    "callers give up",
			clients: clients(of(lock("x"), lock("x")), of(lock("x"))),
			faults:  1, kinds: straggle | loseAnswer | slow, quits: 2,
			seen: 40_000, tests: 10,
		},
		{
			name:    "processes stop",
			clients: clients(of(again(lock("x"))), of(lock("x"))),
			faults:  2, kinds: pause | slow,
			seen: 40_000, tests: 10,
		},
		{
			name:    "notifications go wrong",
			clients: clients(of(lock("x")), of(again(lock("x")))),
			faults:  2, kinds: loseNotification | lateNotification | repeatNotification | interrupt,
			seen: 40_000, tests: 10,
		},
		{
			name:        "subscriptions begin",
			clients:     clients(of(lock("x")), of(lock("x"))),
			subscribing: true, faults: 1, kinds: interrupt | slow,
			seen: 40_000, tests: 10,
		},
		{
			name:    "try",
			clients: clients(of(lock("x"), noWait(lock("x"))), of(noWait(lock("x")))),
			faults:  1, kinds: anyFault,
			seen: 40_000, tests: 10,
		},
		{
			name:    "many take turns",
			clients: clients(of(turning(lock("x"))), of(lock("x"))),
			faults:  1, kinds: slow | pause | loseNotification | refuse | loseAnswer,
			seen: 40_000, tests: 10,
		},
		{
			name:    "renewals overlap",
			clients: clients(of(turning(lock("x"))), of(lock("x"))),
			faults:  1, kinds: slow,
			seen: 30_000, tests: 10,
		},
		{
			name:    "two take turns",
			clients: clients(of(again(lock("x")), lock("x")), of(lock("x"))),
			seen:    40_000, tests: 10,
		},
		{
			name:    "readers and a writer",
			clients: clients(of(share("x"), share("x"), share("x")), of(lock("x"))),
			seen:    40_000, tests: 10,
		},
		{
			name:    "readers, writers and faults",
			clients: clients(of(share("x"), lock("x")), of(share("x"), lock("x"))),
			faults:  1, kinds: anyFault,
			seen: 40_000, tests: 10,
		},
		{
			name:    "idle",
			clients: idling(2*time.Second, clients(of(again(lock("x"))), of(lock("x")))),
			faults:  1, kinds: anyFault,
			seen: 40_000, tests: 10,
		},
		{
			name:    "kept, and tried in the other mode",
			clients: idling(2*time.Second, clients(of(again(share("x")), noWait(lock("x"))), of(share("x")))),
			faults:  1, kinds: slow | loseAnswer | straggle,
			seen: 40_000, tests: 10,
		},
		{
			name:    "revoked",
			clients: clients(of(again(lock("x"))), of(lock("x"))),
			revokes: 1, faults: 1, kinds: loseAnswer | loseNotification | slow,
			seen: 40_000, tests: 10,
		},
		{
			name:    "options",
			clients: clients(of(minHold(time.Second, lock("x")), lock("x")), of(maxHold(time.Second, lock("x")), noRenew(lock("x")))),
			faults:  1, kinds: pause | loseAnswer,
			seen: 40_000, tests: 10,
		},
		{
			name: "held already",
			clients: clients(of(lock("x"), inside(1, lock("x")), inside(1, reentrant(lock("x"))), inside(1, lock("y"))),
				of(lock("y"))),
			faults: 1, kinds: pause | slow,
			seen: 40_000, tests: 10,
		},
		{
			name:    "two wait for each other",
			clients: cycles(lock),
			cycles:  true, seen: 20_000, tests: 10,
		},
		{
			name:    "two wait for each other, and calls go wrong",
			clients: cycles(lock),
			cycles:  true, faults: 1, kinds: loseAnswer | straggle | slow | pause | loseNotification, quits: 1,
			seen: 20_000, tests: 10,
		},
		{
			name:    "two readers wait to write what the other reads",
			clients: cycles(share),
			cycles:  true, seen: 20_000, tests: 10,
		},
		{
			name:    "permits",
			clients: clients(of(permits(1, 2), permits(1, 2)), of(permits(2, 2))),
			faults:  1, kinds: anyFault,
			seen: 40_000, tests: 10,
		},
		{
			name:      "without order",
			clients:   clients(of(lock("x"), lock("y")), of(again(lock("x")))),
			unordered: true, notifies: true, faults: 1, kinds: anyFault, quits: 1,
			seen: 60_000, tests: 10,
		},
		{
			name:      "without order, and nobody is told",
			clients:   clients(of(lock("x"), noWait(lock("x"))), of(lock("x"))),
			unordered: true, faults: 2, kinds: loseAnswer | straggle | slow | pause, quits: 1,
			seen: 60_000, tests: 10,
		},
		{
			name:      "without order, and many names wait",
			clients:   clients(of(lock("x"), lock("y"), lock("z")), of(lock("x"), lock("y"))),
			unordered: true, notifies: true, quits: 1,
			seen: 40_000, tests: 10,
		},
		{
			name:    "handed over, and closed",
			clients: detaching(clients(of(detached(lock("x")), minHold(time.Second, lock("x"))), of(lock("x")))),
			faults:  1, kinds: loseAnswer | slow, closes: true,
			seen: 40_000, tests: 10,
		},
		{
			name:    "three clients fail fast, or make every lease a claim",
			clients: odd(clients(of(lock("x")), of(lock("x"), lock("x")), of(lock("x")))),
			faults:  1, kinds: loseAnswer | loseRequest | pause,
			seen: 40_000, tests: 10,
		},
	}
}

func clients(cs ...clientSetup) []clientSetup { return cs }

func of(callers ...callerSetup) clientSetup { return clientSetup{callers: callers} }

func lock(name string) callerSetup {
	return callerSetup{rounds: 1, Want: Want{Name: name, Permits: engine.Max, Limit: engine.Max, TTL: 10 * time.Second}}
}

func share(name string) callerSetup {
	c := lock(name)
	c.Permits = 1
	return c
}

func permits(permits, limit int32) callerSetup {
	c := lock("x")
	c.Permits, c.Limit = permits, limit
	return c
}

func again(c callerSetup) callerSetup     { c.rounds++; return c }
func turning(c callerSetup) callerSetup   { c.churns = true; return c }
func noWait(c callerSetup) callerSetup    { c.NoWait = true; return c }
func noRenew(c callerSetup) callerSetup   { c.NoRenew = true; return c }
func detached(c callerSetup) callerSetup  { c.Detached = true; return c }
func reentrant(c callerSetup) callerSetup { c.Reentrant = true; return c }

func minHold(d time.Duration, c callerSetup) callerSetup { c.MinHold = d; return c }
func maxHold(d time.Duration, c callerSetup) callerSetup { c.MaxHold = d; return c }
func inside(i int, c callerSetup) callerSetup            { c.inside = i; return c }

func idling(d time.Duration, cs []clientSetup) []clientSetup {
	for i := range cs {
		cs[i].config.IdleTimeout = d
	}
	return cs
}

func detaching(cs []clientSetup) []clientSetup {
	for i := range cs {
		cs[i].config.Detached = true
	}
	return cs
}

func odd(cs []clientSetup) []clientSetup {
	cs[0].config.FailFast, cs[1].config.NoLocalHandoff = true, true
	return cs
}
