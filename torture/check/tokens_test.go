package check

import (
	"testing"

	"leasehold/torture/history"
)

func memory(d *history.Declares) { d.Fencing = "memory" }

// setBack is an engine whose claims end early when its clock goes forward.
func setBack(d *history.Declares) { d.Assumes = []string{history.Clock} }

func TestTokens(t *testing.T) {
	const fell = `
			0 c1 A lock n
			5 A ok 9
			6 A unlock
			7 A! ok
			8 c2 B lock n
			9 B ok 8`
	judge(t, Tokens, []row{
		{name: "a token falls", want: "fell from 9216 to 8192, although lease 1 of c1 (exclusive) was granted before lease 3 of c2", lines: []int{3, 6, 7}, text: fell},
		{name: "without fencing it may", text: fell, declares: func(d *history.Declares) { d.Fencing = "none" }},
		{name: "a token rises", text: `
			0 c1 A lock n
			5 A ok 9
			8 c2 B lock n
			9 B ok 10`},
		{name: "of two calls that overlap neither was first", text: `
			0 c1 A lock n
			5 c2 B lock n
			6 A ok 9
			9 B ok 8`},
		{name: "asked for at the moment of the answer", text: `
			0 c1 A lock n
			5 A ok 9
			5 c2 B lock n
			9 B ok 8`},
		{name: "below one that is not the last", want: "fell from 9216 to 8192", text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 9
			6 B ok 7
			7 c3 C lock n
			9 C ok 8`},
		{name: "of two calls that overlap one was valid first", want: "was valid before lease 2", text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 9
			6 A mark
			8 B ok 8
			9 B mark`},
		{name: "a token comes twice", want: "have the same token, 9216", lines: []int{4, 5}, text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 9
			8 B ok 9`},
		{name: "a handoff has a token of its own", text: `
			0 c1 A lock n
			5 A ok 9
			6 c1 B lock n
			8 B ok 9.1`},
		{name: "of another name", text: `
			0 c1 A lock n
			5 A ok 9
			6 c1 B lock m
			8 B ok 9`},
		{name: "shared leases of one claim have one token", text: `
			0 c1 A lock n shared
			5 A ok 9
			6 c1 B lock n shared
			8 B ok 9`},
		{name: "what is re-entrant has the token of what it is in", text: `
			0 c1 A lock n
			5 A ok 9
			6 c1 B lock n under A
			8 B ok 9`},
		{name: "what is re-entrant has another token", want: "but it goes on with lease 1", text: `
			0 c1 A lock n
			5 A ok 9
			6 c1 B lock n under A
			8 B ok 10`},
		{name: "what is adopted keeps the token", text: `
			0 c1 A lock n
			5 A ok 9
			6 A detach
			7 A! ok
			8 c2 B adopt of A
			9 B ok 9`},
		{name: "a token changes", want: "began with the token 9216 and has 10240 later", text: `
			0 c1 A lock n
			5 A ok 9
			6 A mark 10`},
		{name: "a store forgets and its clock steps back", declares: memory, declared: true, want: "fell", text: `
			0 strike 1 restart server breaks memory
			1 heal 1
			2 c1 A lock n
			3 A ok 9
			4 strike 2 clock server breaks clock
			5 heal 2
			6 c2 B lock n
			7 B ok 8`},
		{name: "a store forgets, and its clock goes on", declares: memory, want: "fell", text: `
			2 c1 A lock n
			3 A ok 9
			4 strike 1 restart server breaks memory
			5 heal 1
			6 c2 B lock n
			7 B ok 8`},
		{name: "a clock steps back, and nothing is forgotten", declares: memory, want: "fell", text: `
			2 c1 A lock n
			3 A ok 9
			4 strike 1 clock server breaks clock
			5 heal 1
			6 c2 B lock n
			7 B ok 8`},
		{name: "a failover forgets, and the clock steps back", declares: memory, declared: true, want: "fell", text: `
			2 c1 A lock n
			3 A ok 9
			4 strike 1 failover server breaks failover,clock
			5 heal 1
			6 c2 B lock n
			7 B ok 8`},
		{name: "a store forgets later", declares: memory, want: "fell", text: `
			2 c1 A lock n
			3 A ok 9
			6 c2 B lock n
			7 B ok 8
			8 strike 1 restart server breaks memory,clock
			9 heal 1`},
		{name: "a failover ends a claim whose client goes on", declares: mayDouble, declared: true, want: "fell", text: `
			0 c1 A lock n
			1 A ok 8
			2 strike 1 failover server breaks failover
			3 heal 1
			4 c2 B lock n
			5 B ok 9
			6 B mark
			8 A mark`},
		{name: "and hands it on", declares: mayDouble, declared: true, want: "fell", text: `
			0 c1 A lock n
			1 A ok 8
			2 strike 1 failover server breaks failover
			3 heal 1
			4 c2 B lock n
			5 B ok 9
			6 c1 C lock n
			8 C ok 8.1`},
		{name: "a clock that was set back is put right, which ends a claim whose client hands it on", declares: setBack, declared: true, want: "fell", text: `
			0 strike 1 clock server breaks clock
			2 c1 A lock n
			3 A ok 8
			4 heal 1
			5 c2 B lock n
			6 B ok 9
			7 c1 C lock n
			8 C ok 8.1`},
		{name: "the claim is younger than the clock that was put right", declares: setBack, want: "fell", text: `
			0 strike 1 clock server breaks clock
			1 heal 1
			2 c1 A lock n
			3 A ok 8
			5 c2 B lock n
			6 B ok 9
			7 c1 C lock n
			8 C ok 8.1`},
		{name: "it goes on for longer than a TTL", declares: mayDouble, want: "fell", text: `
			0 c1 A lock n
			1 A ok 8
			2 strike 1 failover server breaks failover
			3 heal 1
			4 c2 B lock n
			5 B ok 9
			6 B mark
			1100 A mark`},
		{name: "the claim is younger than the failover", declares: mayDouble, want: "fell", text: `
			0 strike 1 failover server breaks failover
			1 heal 1
			2 c1 A lock n
			3 A ok 8
			4 c2 B lock n
			5 B ok 9
			6 B mark
			8 A mark`},
		{name: "a claim that is revoked at once while its client keeps it", text: `
			0 c1 A lock n
			1 A ok 8
			2 A unlock
			2 A! ok
			3 c2 R revoke n now
			4 R ok
			5 c2 B lock n
			6 B ok 9
			7 c1 C lock n
			8 C ok 8.1`},
		{name: "a claim that its client keeps for longer than a TTL after it was revoked", want: "fell", text: `
			0 c1 A lock n
			1 A ok 8
			2 A unlock
			2 A! ok
			3 c2 R revoke n now
			4 R ok
			5 c2 B lock n
			6 B ok 9
			1007 c1 C lock n
			1008 C ok 8.1`},
		{name: "a store forgets that must not", want: "fell", text: `
			2 c1 A lock n
			3 A ok 9
			4 strike 1 restart server breaks memory,clock
			5 heal 1
			6 c2 B lock n
			7 B ok 8`},
	})
}
