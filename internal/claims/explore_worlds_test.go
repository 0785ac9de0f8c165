package claims

import "time"

// worlds is what is explored: each is small, and about one thing.
func worlds() []*setup {
	noWait := func(w Want) Want { w.NoWait = true; return w }
	return []*setup{
		{
			name:    "two clients, nothing goes wrong",
			clients: clients(each(lock("x"), 1, lock("x"), 1), each(lock("x"), 1)),
			quits:   1, seen: 20_000, tests: 1,
		},
		{
			name:    "two clients, calls go wrong",
			clients: clients(each(lock("x"), 1), each(lock("x"), 1)),
			faults:  2, kinds: loseRequest | loseAnswer | straggle | slow | refuse,
			seen: 20_000, tests: 10,
		},
		{
			name:    "two clients, processes stop",
			clients: clients(each(lock("x"), 2), each(lock("x"), 1)),
			faults:  2, kinds: pause | slow,
			seen: 20_000, tests: 10,
		},
		{
			name:    "two clients, notes go wrong",
			clients: clients(each(lock("x"), 1), each(lock("x"), 2)),
			faults:  2, kinds: loseNote | lateNote | repeatNote | interrupt, subscribing: true,
			seen: 20_000, tests: 10,
		},
		{
			name:    "try",
			clients: clients(each(lock("x"), 1, noWait(lock("x")), 1), each(noWait(lock("x")), 1)),
			faults:  1, kinds: anyFault,
			seen: 20_000, tests: 10,
		},
		{
			name:    "callers give up",
			clients: clients(each(lock("x"), 1, lock("x"), 1), each(lock("x"), 1)),
			faults:  1, kinds: straggle | loseAnswer | slow, quits: 2,
			seen: 20_000, tests: 10,
		},
		{
			name:    "readers and a writer",
			clients: clients(each(share("x"), 1, share("x"), 1, lock("x"), 1), each(lock("x"), 1)),
			faults:  1, kinds: anyFault,
			seen: 20_000, tests: 10,
		},
		{
			name:    "lending",
			clients: clients(turning(lock("x")), each(lock("x"), 1)),
			faults:  2, kinds: loseNote | lateNote | slow | pause,
			seen: 20_000, tests: 10,
		},
		{
			name:    "kept",
			clients: keeping(2*time.Second, clients(each(lock("x"), 2), each(lock("x"), 1))),
			faults:  1, kinds: anyFault,
			seen: 20_000, tests: 10,
		},
	}
}

func clients(cs ...clientSetup) []clientSetup { return cs }

// each is a client of callers: what each wants and how often it asks.
func each(wantsAndRounds ...any) (c clientSetup) {
	for i := 0; i < len(wantsAndRounds); i += 2 {
		c.callers = append(c.callers, callerSetup{Want: wantsAndRounds[i].(Want), rounds: wantsAndRounds[i+1].(int)})
	}
	return c
}

// turning is a client of many callers, who take turns.
func turning(w Want) clientSetup {
	return clientSetup{callers: []callerSetup{{Want: w, rounds: 1, churns: true}}}
}

func keeping(d time.Duration, cs []clientSetup) []clientSetup {
	for i := range cs {
		cs[i].config.Keep = d
	}
	return cs
}
