package check

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/torture/history"
)

// good is a trial of so many leases, of which the first so many are struck.
func good(leases, strikes int) string {
	var b strings.Builder
	for i := range leases {
		at := 10 * i
		fmt.Fprintf(&b, "%d c1 A%d lock n\n%d A%d ok %d\n%d A%d mark\n", at, i, at, i, i+1, at+1, i)
		if i < strikes {
			fmt.Fprintf(&b, "%d strike %d cut server breaks failover\n%d bit %d\n%d heal %d\n", at+2, i+1, at+3, i+1, at+4, i+1)
		}
		fmt.Fprintf(&b, "%d A%d mark\n%d A%d unlock\n%d A%d! ok\n", at+5, i, at+6, i, at+7, i)
	}
	fmt.Fprintf(&b, "%d end\n", 10*leases)
	return b.String()
}

func TestVerdict(t *testing.T) {
	for _, r := range []struct {
		name, text string
		declares   func(*history.Declares)
		p          Property
		word       Word
		why        string
	}{
		{name: "enough", text: good(500, 20), p: Exclusion, word: NotSeen, why: "20 strikes: a strike shows one less often than 0.15"},
		{name: "too few leases", text: good(499, 20), p: Exclusion, word: Void, why: "499 leases, of at least 500"},
		{name: "too few strikes", text: good(500, 19), p: Exclusion, word: Void, why: "19 faults had an effect while somebody held a lease, of at least 20"},
		{name: "strikes without an effect", text: good(500, 0) + strings.Repeat("5001 strike 1 cut server\n", 20), p: Exclusion, word: Void, why: "0 faults had an effect"},
		{name: "no strikes", text: good(500, 0), p: Exclusion, word: Void, why: "there were no faults"},
		{name: "a violation counts in a small trial too", text: doubled("clock"), p: Exclusion, word: Violated, why: "1 violation"},
		{name: "it may double and did not", text: good(500, 20), declares: mayDouble, p: Exclusion, word: TooWeak, why: "20 failovers did not show it"},
		{name: "it may double and there was no failover", text: good(500, 0), declares: mayDouble, p: Exclusion, word: TooWeak, why: "there was no failover"},
		{name: "it may double and the failover had no effect", text: good(500, 0) + "5001 strike 1 cut server breaks failover\n5002 heal 1", declares: mayDouble, p: Exclusion, word: TooWeak, why: "there was no failover"},
		{name: "it may double and did", text: doubled("failover"), declares: mayDouble, p: Exclusion, word: AsDeclared, why: "seen 1 time"},
		{name: "it may double, and its tokens rise", text: good(500, 20), declares: mayDouble, p: Tokens, word: NotSeen, why: "20 strikes"},
		{name: "no order", text: good(500, 20), declares: func(d *history.Declares) { d.Order = "none" }, p: Order, word: NotDeclared},
		{name: "no fencing", text: good(500, 20), declares: func(d *history.Declares) { d.Fencing = "none" }, p: Tokens, word: NotDeclared},
		{name: "nobody waited", text: good(500, 20), p: Order, word: Void, why: "nobody waited while another call began"},
		{name: "nobody wrote", text: good(500, 20), p: Resource, word: Void, why: "nobody wrote"},
		{name: "no write was late", text: good(500, 20) + "5001 c1 W lock w\n5001 W ok 900\n5002 W read fenced 0\n5002 W write fenced 1", p: Resource, word: Void, why: "no write came late"},
		{name: "Unlock was true", text: good(500, 20), p: Honesty, word: NotSeen, why: "500 cases"},
		{name: "nobody lost a lease", text: good(500, 20), p: Notified, word: Void, why: "no lease ended without Unlock"},
		{name: "each fault is followed by a grant", text: good(500, 20), p: Liveness, word: NotSeen, why: "20 strikes"},
		{name: "nobody looked", text: good(500, 20), p: Nothing, word: Void, why: "nobody looked"},
		{name: "somebody looked", text: good(1, 0) + "99 left 0 keys", p: Nothing, word: NotSeen, why: "1 case"},
	} {
		t.Run(r.name, func(t *testing.T) {
			d := declares()
			if r.declares != nil {
				r.declares(&d)
			}
			got, err := History(build(t, d, r.text), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Of(r.p); v.Word != r.word || !strings.Contains(v.Why, r.why) {
				t.Fatalf("the verdict is %s: %s, want %s: %s", v.Word, v.Why, r.word, r.why)
			}
		})
	}
}

// Hours under a fault for which the engine promises nothing have thousands of findings that it
// declares. One before the fault, of a later name, is what counts.
func TestWhatIsDeclaredHidesAViolation(t *testing.T) {
	var b strings.Builder
	b.WriteString(`
		0 c1 A lock a
		0 A ok 1
		1 c1 B lock b
		1 c2 C lock b
		2 B ok 1
		2 C ok 2
		3 B mark
		4 C mark
		5 B mark
		6 C mark
		10 strike 1 cut server breaks failover
		20 A mark
`)
	for i := range enough {
		fmt.Fprintf(&b, "%d c2 T%d try a\n%d T%d ok %d\n%d T%d mark\n", 30+i, i, 30+i, i, i+2, 30+i, i)
	}
	fmt.Fprintf(&b, "%d A mark\n", 30+enough)
	d := declares()
	mayDouble(&d)
	got, err := History(build(t, d, b.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Of(Exclusion); v.Word != Violated || v.Declared != enough || v.Found != enough+1 {
		t.Fatalf("the verdict is %s: %d findings, of which %d are declared", v.Word, v.Found, v.Declared)
	}
}

// A short trial can say what it is worth.
func TestAShortTrialIsNotJudgedByItsOwnNumbers(t *testing.T) {
	got, err := History(build(t, declares(), good(30, 6)), Options{Grants: 30, Strikes: 6})
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Of(Exclusion); v.Word != NotSeen || v.N != 6 || v.Bound != 0.5 {
		t.Fatalf("%+v", v)
	}
}

func TestAHistoryThatContradictsItselfIsJudged(t *testing.T) {
	for _, r := range []struct{ name, text, want string }{
		{"an answer to nothing", "", "was not made"},
		{"two answers", "0 c1 A lock n\n1 A ok 1\n2 A ok 1", "two answers"},
		{"a mark before the answer", "0 c1 A lock n\n1 A mark", "granted nothing"},
		{"the end of a fault that did not begin", "0 heal 1", "did not begin"},
		{"permits that nobody can have", "0 c1 A lock n 4/3", "4 of 3"},
	} {
		t.Run(r.name, func(t *testing.T) {
			events := build(t, declares(), r.text)
			if r.text == "" {
				events = append(events, history.Event{Kind: history.Call, Op: 1, Of: 2, What: history.Unlock})
			}
			if _, err := History(events, Options{}); err == nil || !strings.Contains(err.Error(), r.want) {
				t.Fatalf("got %v, want %q", err, r.want)
			}
		})
	}
	events := append(build(t, declares(), "0 c1 A lock n"), history.Event{Kind: history.Answer, Client: "c2", Op: 1, Result: history.OK})
	if _, err := History(events, Options{}); err == nil || !strings.Contains(err.Error(), "a call that c2 did not make") {
		t.Errorf("the answer to a call of another client: %v", err)
	}
	if _, err := History(nil, Options{}); err == nil {
		t.Error("nothing is judged")
	}
}

// A trial of hours has millions of events.
func BenchmarkAMillionEvents(b *testing.B) {
	var text strings.Builder
	text.WriteString(good(20_000, 100))
	events := build(b, declares(), text.String())
	begin, one := events[0], events[1:len(events)-1]
	all := []history.Event{begin}
	for round := 0; len(all) < 1_000_000; round++ {
		for _, e := range one {
			e.At += time.Duration(round) * time.Hour
			if e.Op != 0 {
				e.Op += int64(round) * 1_000_000
			}
			if e.Of != 0 {
				e.Of += int64(round) * 1_000_000
			}
			if e.Fault != 0 {
				e.Fault += round * 1_000
			}
			if e.Token != 0 {
				e.Token += uint64(round) << 40
			}
			all = append(all, e)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := History(all, Options{})
		if err != nil || len(r.Findings) > 0 {
			b.Fatal(err, r.Findings[0])
		}
	}
	b.ReportMetric(float64(len(all)), "events")
}
