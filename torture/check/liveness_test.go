package check

import "testing"

func TestLiveness(t *testing.T) {
	// The bound is 3 s.
	judge(t, Liveness, []row{
		{name: "nobody is granted a free name", want: "lease 3 of c2 (exclusive) waits since 0.006 s, nobody holds the name since 0.008 s", lines: []int{5, 6, 7}, text: `
			0 c1 A lock n
			5 A ok 1
			6 A unlock
			6 c2 B lock n
			8 A! ok
			3009 B ok 2`},
		{name: "somebody is, within the bound", text: `
			0 c1 A lock n
			5 A ok 1
			6 A unlock
			6 c2 B lock n
			8 A! ok
			3008 B ok 2`},
		{name: "until the end of the trial", want: "nobody was granted it until 9.000 s", text: `
			0 c1 A lock n
			9000 end`},
		{name: "somebody holds it", text: `
			0 c1 A lock n
			5 A ok 1
			6 c2 B lock n
			9000 end`},
		{name: "somebody holds another name", want: "lease 2 of c2", text: `
			0 c1 A lock m
			5 A ok 1
			6 c2 B lock n
			9000 end`},
		{name: "who waited gave up late", want: "lease 1", text: `
			0 c1 A lock n
			4000 A gave
			9000 end`},
		{name: "who waited gave up", text: `
			0 c1 A lock n
			2000 A gave
			2000 c1 B lock n
			4900 B ok 3
			9000 end`},
		{name: "who held was killed", want: "nobody holds the name since 2.000 s", text: `
			0 c1 A lock n
			5 A ok 1
			6 c2 B lock n
			2000 exit c1
			9000 end`},
		{name: "a lease that is lost keeps its claim until Unlock", text: `
			0 c1 A lock n
			5 A ok 1
			6 c2 B lock n
			10 A lost
			9000 end`},
		{name: "who waited was killed", text: `
			0 c1 A lock n
			2000 exit c1
			9000 end`},
		{name: "while a fault is under way", text: `
			0 strike 1 kill server
			0 c1 A lock n
			8000 heal 1
			9000 A ok 1`},
		{name: "while a fault is under way somebody else comes", text: `
			0 strike 1 kill server
			0 c1 A lock n
			7000 c2 B lock n
			8000 heal 1
			9000 A ok 1`},
		{name: "after the last of two faults", text: `
			0 strike 1 kill server
			0 strike 2 kill server
			0 c1 A lock n
			1000 heal 1
			6000 heal 2
			9000 A ok 1`},
		{name: "long after the last fault", want: "no fault is under way since 2.000 s", lines: []int{3, 4, 5}, text: `
			0 strike 1 kill server
			0 c1 A lock n
			2000 heal 1
			5001 A ok 1`},
		{name: "an engine that forgot grants nothing for its longest TTL", declares: forgetful, text: `
			0 strike 1 crash server breaks memory
			0 c1 A lock n
			2000 heal 1
			8999 A ok 1`},
		{name: "an engine that forgot grants nothing for longer", declares: forgetful, want: "lease 1", text: `
			0 strike 1 crash server breaks memory
			0 c1 A lock n
			2000 heal 1
			9001 A ok 1`},
		{name: "an engine that did not forget grants nothing for its longest TTL", declares: forgetful, want: "lease 1", text: `
			0 strike 1 kill server
			0 c1 A lock n
			2000 heal 1
			8999 A ok 1`},
		{name: "before a fault", want: "no fault is under way since 0.000 s", text: `
			0 c1 A lock n
			3001 strike 1 kill server
			4000 heal 1
			5001 A ok 1`},
		{name: "an inner lease is still open", text: `
			0 c1 A lock n
			5 A ok 1
			6 c1 B lock n under A
			7 B ok 1
			8 A unlock
			9 A! ok
			10 c2 C lock n
			9000 end`},
	})
}

func TestLeftovers(t *testing.T) {
	judge(t, Nothing, []row{
		{name: "keys", want: "3 keys are left behind", text: `
			0 end
			1 left 3 keys`},
		{name: "nothing", text: `
			0 end
			1 left 0 keys`},
	})
}
