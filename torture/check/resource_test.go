package check

import (
	"testing"
	"time"
)

func TestResource(t *testing.T) {
	judge(t, Resource, []row{
		{name: "an update is lost", want: "an update is lost: lease 1 of c1", lines: []int{6, 8, 9}, text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B ok 1
			4 A read fenced 0
			5 B read fenced 0
			6 B write fenced 1
			7 A write fenced 1`},
		{name: "the resource refuses it", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B ok 2
			4 A read fenced 0
			5 B read fenced 0
			6 B write fenced 1
			7 A write fenced 1 stale`},
		{name: "without fencing it is no fault of the lock", text: unfenced},
		{name: "one after the other", text: `
			0 c1 A lock n
			1 A ok 1
			2 A read fenced 0
			3 A write fenced 1
			4 c2 B lock n
			5 B ok 2
			6 B read fenced 1
			7 B write fenced 2`},
		{name: "the resource takes an old token", want: "took the token 1024 after 2048", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B ok 2
			4 B read fenced 0
			5 A read fenced 0`},
		{name: "a reader does not raise the mark", text: `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n shared
			3 B ok 2
			4 B read fenced 0
			5 A read fenced 0`},
		{name: "the resource forgets", want: "was read as 0, and it had been set to 1", text: `
			0 c1 A lock n
			1 A ok 1
			2 A read fenced 0
			3 A write fenced 1
			4 A read fenced 0`},
	})
}

const unfenced = `
			0 c1 A lock n
			1 A ok 1
			2 c2 B lock n
			3 B ok 2
			4 A read unfenced 0
			5 B read unfenced 0
			6 B write unfenced 1
			7 A write unfenced 1`

func TestLossesWithoutFencingAreNotCounted(t *testing.T) {
	got, err := History(build(t, declares(), unfenced), Options{})
	if err != nil || got.Stats.UnfencedLost != 1 || got.Stats.UnfencedWrites != 2 {
		t.Fatalf("%v: %d of %d writes lost an update, want 1 of 2", err, got.Stats.UnfencedLost, got.Stats.UnfencedWrites)
	}
}

func TestNotified(t *testing.T) {
	const other = `
			1100 c2 B lock n
			1101 B ok 2
			1102 B mark`
	const lost = `
			0 c1 A lock n
			5 A ok 1
			10 A mark` + other
	judge(t, Notified, []row{
		{name: "never", want: "its client did not learn it until the end", lines: []int{4, 7}, text: lost + `
			9000 end`},
		{name: "late", want: "its client learned it at 6.103 s", lines: []int{4, 7, 8}, text: lost + `
			6103 A lost
			9000 end`},
		{name: "in time", text: lost + `
			6102 A lost
			9000 end`},
		{name: "in time, and once more", text: lost + `
			6102 A lost
			7000 A lost
			9000 end`},
		{name: "before the other was granted", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			1000 A lost` + other + `
			9000 end`},
		{name: "by Unlock", text: lost + `
			6000 A unlock
			6001 A! gone
			9000 end`},
		{name: "by an Unlock that comes late", want: "learned it at 7.000 s", text: lost + `
			7000 A unlock
			7001 A! gone
			9000 end`},
		{name: "it was unlocked", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 A unlock
			21 A! ok` + other + `
			9000 end`},
		{name: "its client was killed", text: lost + `
			1200 exit c1
			9000 end`},
		{name: "its client is stopped", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 strike 1 stop c1` + other + `
			8000 heal 1
			8100 A lost
			9000 end`},
		{name: "its client goes on and is not told", want: "did not learn it", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 strike 1 stop c1` + other + `
			2000 heal 1
			9000 end`},
		{name: "all clients are frozen", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark` + other + `
			1103 strike 1 freeze all
			8000 heal 1
			8100 A lost
			9000 end`},
		{name: "its client is cut off", want: "learned it at 8.100 s", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 strike 1 cut c1` + other + `
			8000 heal 1
			8100 A lost
			9000 end`},
		{name: "its server is stopped", want: "learned it at 8.100 s", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark` + other + `
			1103 strike 1 stop server
			8000 heal 1
			8100 A lost
			9000 end`},
		{name: "another client is stopped", want: "did not learn it", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 strike 1 stop c3` + other + `
			9000 end`},
		{name: "the trial ends before it must be told", text: lost + `
			6000 end`},
		{name: "readers hold together", text: `
			0 c1 A lock n shared
			5 A ok 1
			10 A mark
			11 c2 B lock n shared
			12 B ok 2
			13 B mark
			9000 end`},
		{name: "revoked, it may go on for its TTL", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 c2 R revoke n now
			21 R ok` + other + `
			7000 A lost
			9000 end`},
		{name: "what is adopted goes on", text: `
			0 c1 A lock n
			5 A ok 1
			10 A mark
			20 A detach
			30 c2 B adopt of A
			31 B ok 1
			40 B mark
			9000 end`},
	})
}

func TestStatisticsAreWrong(t *testing.T) {
	got, err := History(build(t, declares(), `
		0 c1 A lock n
		10 A ok 1
		20 A mark
		30 A mark
		40 strike 1 kill c1
		41 bit 1
		42 exit c1
		43 heal 1
		50 c2 B lock n
		1500 B ok 2
		1600 strike 2 kill c2
		1601 heal 2
		1610 B unlock
		1620 B! ok
		1700 strike 3 kill c2
		1701 bit 3
		1702 heal 3
		2000 end`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	adopted, err := History(build(t, declares(), `
		0 c1 A lock n
		1 A ok 1
		2 A detach
		3 A! ok
		4 c2 B adopt of A
		5 B ok 1`), Options{})
	if err != nil || adopted.Stats.Grants != 2 {
		t.Errorf("%v: %+v", err, adopted.Stats)
	}
	s := got.Stats
	if len(s.Faults) != 1 || s.Faults[0] != (Fault{"kill", 3, 2, 1}) {
		t.Errorf("faults are %+v", s.Faults)
	}
	if s.Grants != 2 || s.Seen != 1 || s.LongestWait["n"] != 1450*time.Millisecond || s.Outage != 1450*time.Millisecond {
		t.Errorf("%+v", s)
	}
}
