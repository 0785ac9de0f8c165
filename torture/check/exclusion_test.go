package check

import (
	"testing"

	"leasehold/torture/history"
)

func mayDouble(d *history.Declares) { d.MayDouble = true }

func TestExclusion(t *testing.T) {
	judge(t, Exclusion, []row{
		{name: "two are valid at once", want: "they overlap for 10ms", lines: []int{6, 7, 8, 9}, text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			30 A mark
			40 B mark`},
		{name: "one is seen valid once, while the other is", want: "overlap for 0s", text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			30 A mark`},
		{name: "one after the other", text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 1
			10 A mark
			19 A mark
			19 B ok 2
			20 B mark
			40 B mark`},
		{name: "marks of one moment have no order", text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 1
			10 A mark
			20 A mark
			20 B ok 2
			20 B mark
			40 B mark`},
		{name: "granted, and not seen valid together", text: `
			0 c1 A lock n
			0 c2 B lock n
			5 A ok 1
			10 A mark
			11 B ok 2
			20 B mark
			30 A lost`},
		{name: "of other names", text: `
			0 c1 A lock n
			0 c2 B lock m
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			30 A mark
			40 B mark`},
		{name: "shared", text: `
			0 c1 A lock n shared
			0 c2 B lock n shared
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			30 A mark
			40 B mark`},
		{name: "a writer among readers", want: "exclusive", text: `
			0 c1 A lock n shared
			0 c2 B lock n shared
			0 c3 C lock n
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			25 C ok 3
			26 C mark
			30 A mark`},
		{name: "permits up to the limit", text: `
			0 c1 A lock n 2/3
			0 c2 B lock n 1/3
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			30 A mark
			40 B mark`},
		{name: "one permit more than the limit, of three leases", want: "4 permits of 3", lines: []int{8, 9, 10, 11, 12}, text: `
			0 c1 A lock n 1/3
			0 c2 B lock n 1/3
			0 c3 C lock n 2/3
			5 A ok 1
			6 B ok 2
			7 C ok 3
			10 A mark
			20 B mark
			30 C mark
			40 A mark
			40 B mark`},
		{name: "two limits at once", want: "1 of 3", text: `
			0 c1 A lock n 1/3
			0 c2 B lock n 1/5
			5 A ok 1
			6 B ok 2
			10 A mark
			20 B mark
			30 A mark
			40 B mark`},
		{name: "two limits one after the other", text: `
			0 c1 A lock n 1/3
			5 A ok 1
			10 A mark
			11 A unlock
			12 A! ok
			20 c2 B lock n 1/5
			26 B ok 2
			30 B mark`},
		{name: "re-entrant leases are one", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			10 c1 B lock n under A
			20 B ok 1
			25 B mark
			30 A mark
			40 B mark`},
		{name: "one that is re-entrant keeps the name", want: "overlap for 0s", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			10 c1 B lock n under A
			20 B ok 1
			21 A unlock
			22 A! ok
			25 c2 C lock n
			26 C ok 2
			30 C mark
			40 B mark`},
		{name: "revoked at once", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			10 c2 R revoke n now
			20 R ok
			21 c2 B lock n
			22 B ok 2
			23 B mark
			30 A mark
			40 B mark`},
		{name: "revoked at once, and others overlap later", want: "overlap for 5ms", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			10 c2 R revoke n now
			20 R ok
			21 c2 B lock n
			21 c3 C lock n
			22 B ok 2
			23 C ok 3
			23 B mark
			25 C mark
			30 B mark
			40 C mark`},
		{name: "revoked, but not at once", want: "overlap for 7ms", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			10 c2 R revoke n
			20 R ok
			21 c2 B lock n
			22 B ok 2
			23 B mark
			30 A mark
			40 B mark`},
		{name: "a failover, declared", declares: mayDouble, declared: true, want: "overlap for 10ms", text: doubled("failover")},
		{name: "a failover, not declared", want: "overlap for 10ms", text: doubled("failover")},
		{name: "an engine that forgot grants twice when its longest TTL has not passed", declares: forgetful, want: "overlap for", text: `
			0 strike 1 crash server breaks memory
			1 heal 1
			2000 c1 A lock n
			2000 c2 B lock n
			2005 A ok 1
			2006 B ok 2
			2010 A mark
			2020 B mark
			2030 A mark
			2040 B mark`},
		{name: "another fault than the one that is declared", declares: mayDouble, want: "overlap for 10ms", text: doubled("memory")},
		{name: "the clock of the server, on which the engine rests", declared: true, want: "overlap for 10ms", text: doubled("clock"),
			declares: func(d *history.Declares) { d.Assumes = []string{history.Clock} }},
		{name: "an overlap that began under a failover and goes on", declares: mayDouble, declared: true, want: "overlap for 4.98s", text: doubled("failover") + `
			5000 A mark
			5001 B mark`},
		{name: "an inner lease is seen valid first", want: "overlap for 5ms", text: `
			0 c1 A lock n
			5 A ok 1
			6 c1 B lock n under A
			7 B ok 1
			10 B mark
			12 c2 C lock n
			13 C ok 2
			15 C mark
			20 C mark
			30 A mark`},
		{name: "a Revoke that was refused", want: "overlap for 7ms", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			10 c2 R revoke n now
			20 R refused
			21 c2 B lock n
			22 B ok 2
			23 B mark
			30 A mark
			40 B mark`},
		{name: "revoked at once, after an inner lease was unlocked", text: `
			0 c1 A lock n
			5 A ok 1
			6 A mark
			7 c1 I lock n under A
			8 I ok 1
			9 I unlock
			9 I! ok
			10 c2 R revoke n now
			20 R ok
			21 c2 B lock n
			22 B ok 2
			23 B mark
			30 A mark
			40 B mark`},
		{name: "a claim that is revoked at once while its client keeps it", text: `
			0 c1 A lock n
			5 A ok 1
			6 A unlock
			6 A! ok
			10 c2 R revoke n now
			20 R ok
			21 c2 B lock n
			22 B ok 2
			23 B mark
			25 c1 C lock n
			26 C ok 1.1
			27 C mark
			30 B mark
			40 C mark`},
		{name: "a claim that its client keeps for longer than a TTL after it was revoked", want: "overlap for 13ms", text: `
			0 c1 A lock n
			5 A ok 1
			6 A unlock
			6 A! ok
			10 c2 R revoke n now
			20 R ok
			21 c2 B lock n
			22 B ok 2
			23 B mark
			1025 c1 C lock n
			1026 C ok 1.1
			1027 C mark
			1040 B mark
			1050 C mark`},
		{name: "revoked at once, before it was seen valid", text: `
			0 c1 A lock n
			3 c2 R revoke n now
			4 R ok
			5 A ok 1
			10 A mark
			21 c2 B lock n
			22 B ok 2
			23 B mark
			30 B mark
			40 A mark`},
		{name: "long after a failover", declares: mayDouble, want: "overlap for 10ms", text: `
			0 strike 1 failover server breaks failover
			0 bit 1
			1 heal 1
			2000 c1 A lock n
			2000 c2 B lock n
			2005 A ok 1
			2006 B ok 2
			2010 A mark
			2020 B mark
			2030 A mark
			2040 B mark`},
	})
}

func doubled(breaks string) string {
	return `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			11 strike 1 kill server breaks ` + breaks + `
			12 bit 1
			13 heal 1
			14 c2 B lock n
			16 B ok 2
			20 B mark
			30 A mark
			40 B mark`
}

func TestHonesty(t *testing.T) {
	judge(t, Honesty, []row{
		{name: "another was valid before Unlock", want: "but lease 2 of c2 (exclusive) was valid from", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 c2 B lock n
			21 B ok 2
			22 B mark
			25 B mark
			30 A unlock
			31 A! ok`},
		{name: "another was valid after Unlock began", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 c2 B lock n
			30 A unlock
			31 B ok 2
			32 B mark
			33 A! ok
			40 B mark`},
		{name: "Unlock says that the lease was lost", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 c2 B lock n
			21 B ok 2
			22 B mark
			25 B mark
			30 A unlock
			31 A! gone`},
		{name: "both say that they were valid, and neither was seen", want: "was valid too, as its own Unlock says", text: `
			0 c1 A lock n
			5 A ok 1
			20 c2 B lock n
			21 B ok 2
			30 A unlock
			31 A! ok
			32 B unlock
			33 B! ok`},
		{name: "shared", text: `
			0 c1 A lock n shared
			5 A ok 1
			20 c2 B lock n shared
			21 B ok 2
			30 A unlock
			31 A! ok
			32 B unlock
			33 B! ok`},
		{name: "of three that fill the semaphore, only the first was unlocked", lines: []int{6, 9, 10, 14, 15, 16, 17, 18, 19}, text: `
			0 c1 A lock n 1/3
			0 c2 B lock n 1/3
			0 c3 C lock n 1/3
			0 c4 D lock n 1/3
			1 A ok 1
			2 B ok 2
			3 C ok 3
			10 B mark
			10 C mark
			11 A mark
			12 A mark
			20 D ok 4
			20 D mark
			30 D mark
			50 B mark
			50 C mark
			50 A unlock
			51 A! ok`, want: "Unlock says that lease 1 of c1 (1 of 3 permits) was valid until 0.050 s, but lease 4 of c4 (1 of 3 permits) was valid from 0.020 s to 0.030 s: 4 permits of 3"},
		{name: "of two readers, only the later was unlocked", want: "Unlock says that lease 2 of c2 (shared) was valid until 0.050 s, but lease 3 of c3 (exclusive) was valid from", text: `
			0 c1 A lock n shared
			0 c2 B lock n shared
			0 c3 C lock n
			1 A ok 1
			2 B ok 2
			10 A mark
			12 A mark
			11 B mark
			12 B mark
			20 C ok 3
			20 C mark
			30 C mark
			50 A mark
			50 B unlock
			51 B! ok`},
		{name: "one that was unlocked has room beside one that was not", text: `
			0 c1 A lock n 2/3
			0 c2 B lock n 1/3
			0 c3 C lock n 2/3
			1 A ok 1
			2 B ok 2
			10 A mark
			20 C ok 3
			20 C mark
			30 C mark
			40 A mark
			50 B unlock
			51 B! ok`},
		{name: "nobody says anything", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 c2 B lock n
			21 B ok 2
			22 B mark
			25 B mark
			30 A mark`},
		{name: "what is not answered says nothing", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 c2 B lock n
			21 B ok 2
			22 B mark
			25 B mark
			30 A unlock`},
	})
}
