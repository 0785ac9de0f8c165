package check

import (
	"testing"

	"leasehold/torture/history"
)

func TestOrder(t *testing.T) {
	// A holds and B waits. Then C is asked for.
	const overtaken = `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 A unlock
			8 A! ok
			9 C ok 3
			10 C unlock
			11 C! ok
			12 B ok 2`
	judge(t, Order, []row{
		{name: "a later call is granted first", want: "but was granted first: at 0.009 s, not after 0.012 s", lines: []int{5, 6, 9, 12}, text: overtaken},
		{name: "the engine has no order", text: overtaken, declares: func(d *history.Declares) { d.Order = "none" }},
		{name: "in order", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 A unlock
			8 A! ok
			9 B ok 2
			10 B unlock
			11 B! ok
			12 C ok 3`},
		{name: "the other began before it had its place", text: `
			0 c1 A lock n
			2 c2 B lock n
			5 c3 C lock n
			6 B queued
			9 C ok 2
			12 B ok 3`},
		{name: "the other began at the moment in which it had its place", text: `
			2 c2 B lock n
			6 B queued
			6 c3 C lock n
			9 C ok 2
			12 B ok 3`},
		{name: "a try passes who waits", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C try n
			9 C ok 3
			12 B ok 2`},
		{name: "who waited gave up", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			9 C ok 3
			12 B gave`},
		{name: "who waited was killed", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 exit c2
			9 C ok 3`},
		{name: "readers have no order among them", text: `
			2 c2 B lock n shared
			5 B queued
			6 c3 C lock n shared
			9 C ok 3
			12 B ok 2`},
		{name: "a reader passes a writer", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n shared
			9 C ok 3
			12 B ok 2`},
		{name: "permits that fit together have no order", text: `
			2 c2 B lock n 2/3
			5 B queued
			6 c3 C lock n 1/3
			9 C ok 3
			12 B ok 2`},
		{name: "two limits", want: "granted first", text: `
			2 c2 B lock n 1/3
			5 B queued
			6 c3 C lock n 1/5
			9 C ok 3
			12 B ok 2`},
		{name: "few permits pass many", want: "granted first", text: `
			2 c2 B lock n 3/3
			5 B queued
			6 c3 C lock n 1/3
			9 C ok 3
			12 B ok 2`},
		{name: "a local handoff of a claim that was there before", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			5 B queued
			6 c1 C lock n
			7 A unlock
			8 A! ok
			9 C ok 1.1
			12 B ok 2`},
		{name: "the same process, with a new claim", want: "granted first", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			5 B queued
			6 c1 C lock n
			7 A unlock
			8 A! ok
			9 C ok 3
			12 B ok 2`},
		{name: "the claim of another caller of its process", text: `
			0 c3 X lock n
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 X gave
			9 C ok 1
			12 B ok 2`},
		{name: "the claim of a caller that gave up before it asked, and others waited with", text: `
			0 c3 X lock n
			1 X queued 1
			2 c2 B lock n
			5 B queued 2
			6 c3 Y lock n
			7 X gave
			8 c3 C lock n
			9 Y gave
			10 C ok 1
			12 B ok 2`},
		{name: "without a fault no claim ends, and the one that passed it came later", want: "granted first", text: `
			2 c2 B lock n
			5 B queued 2
			6 c3 C lock n
			9 C ok 3
			12 B ok 4`},
		{name: "the claim of a caller that asked later", want: "granted first", text: `
			2 c2 B lock n
			5 B queued 1
			6 c3 X lock n
			7 X queued 2
			8 c3 C lock n
			9 X gave
			10 C ok 2
			12 B ok 1`},
		{name: "a later call, with an earlier ticket", want: "granted first", text: `
			2 c2 B lock n
			5 B queued 2
			6 c3 C lock n
			7 C queued 1
			9 C ok 1
			12 B ok 2`},
		{name: "its claim ended in a fault, and was made anew", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 stop c2
			8 heal 1
			9 C ok 3
			12 B ok 4`},
		{name: "in a fault, with the place that it had", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 stop c2
			8 heal 1
			9 C ok 3
			12 B ok 2`},
		{name: "its client was stopped before the answer, for longer than its claim lasted", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 stop c2
			9 C ok 3
			11 heal 1
			12 B ok 2
			12 B lost`},
		{name: "the same, but its lease was seen valid", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 stop c2
			9 C ok 3
			11 heal 1
			12 B ok 2
			12 B mark
			13 B lost`},
		{name: "the same without a fault", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			9 C ok 3
			12 B ok 2
			12 B lost`},
		{name: "it held, its client was killed, and its answer was read late", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 kill c2
			7 heal 1
			9 C ok 3
			12 B ok 2
			13 exit c2`},
		{name: "the same, but its lease was seen valid", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 kill c2
			7 heal 1
			9 C ok 3
			12 B ok 2
			12 B mark
			13 exit c2`},
		{name: "the same, but nobody killed its client", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			9 C ok 3
			12 B ok 2
			13 exit c2`},
		{name: "without a fault no claim ends", want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			9 C ok 3
			12 B ok 4`},
		{name: "somebody revoked it", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 c4 R revoke n
			8 R ok
			9 C ok 3
			12 B ok 4`},
		{name: "it held, was revoked at once, and heard of both later", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B queued 2
			4 c3 C lock n
			5 A unlock
			6 A! ok
			7 c1 R revoke n now
			8 C ok 3
			9 B ok 2
			10 R ok
			11 B lost
			12 B unlock
			13 B! gone`},
		{name: "another was revoked at once", want: "granted first", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B queued 2
			4 c3 C lock n
			7 c1 R revoke n now
			8 C ok 3
			9 C unlock
			10 C! ok
			11 R ok
			12 B ok 2
			13 B unlock
			14 B! ok`},
		{name: "it was revoked at once after it had been passed", want: "granted first", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B queued 2
			4 c3 C lock n
			5 A unlock
			6 A! ok
			8 C ok 3
			9 c1 R revoke n now
			10 R ok
			12 B ok 2
			13 B unlock
			14 B! gone`},
		{name: "a failover forgets who waits", declares: mayDouble, declared: true, want: "granted first", text: `
			2 c2 B lock n
			5 B queued
			6 c3 C lock n
			7 strike 1 kill server breaks failover
			8 heal 1
			9 C ok 3
			12 B ok 2`},
	})
}
