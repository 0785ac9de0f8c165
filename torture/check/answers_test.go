package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/torture/history"
)

// twoHold is an engine that has two claims hold one name.
const twoHold = `
			10 c1 A raw n X
			11 A held 7
			12 c2 B raw n Y
			13 B held 8`

// forgetful is an engine that may forget, with a longest TTL of 4 s.
func forgetful(d *history.Declares) {
	d.Fencing, d.Assumes, d.Longest = "memory", []string{history.Memory}, 4*time.Second
}

func TestQueue(t *testing.T) {
	judge(t, Queue, []row{
		{name: "two hold", want: "join of Y by c2 (2147483647 of 2147483647) was answered held with ticket 8", lines: []int{4, 5}, text: twoHold},
		{name: "one holds and one waits", text: `
			10 c1 A raw n X
			11 A held 7
			12 c2 B raw n Y
			13 B waiting 8`},
		{name: "a failover before, declared", declares: mayDouble, declared: true, want: "join of Y", text: `
			0 strike 1 failover server breaks failover
			1 heal 1` + twoHold},
		{name: "a failover that is over, of names that were not in use", declares: mayDouble, want: "join of Y", text: `
			0 strike 1 failover server breaks failover
			1 heal 1
			1002 c1 A raw n X
			1003 A held 7
			1004 c2 B raw n Y
			1005 B held 8`},
		{name: "a failover that is over, of names that were in use", declares: mayDouble, declared: true, want: "join of Y", text: `
			0 c1 C raw n Z
			0 C held 6
			0 strike 1 failover server breaks failover
			1 heal 1
			1002 c1 A raw n X
			1003 A held 7
			1004 c2 B raw n Y
			1005 B held 8`},
		{name: "a failover later", declares: mayDouble, want: "join of Y", text: twoHold + `
			14 strike 1 failover server breaks failover`},
		{name: "a failover, not declared", want: "join of Y", text: `
			0 strike 1 failover server breaks failover` + twoHold},
		{name: "an engine that forgot has everybody wait for nobody", declares: forgetful, declared: true, want: "join of X", text: `
			0 strike 1 crash server breaks memory
			1000 heal 1
			5900 c1 A raw n X
			5901 A waiting 7`},
		{name: "an engine has everybody wait for nobody", declares: forgetful, want: "join of X", text: `
			0 strike 1 crash server breaks memory
			1000 heal 1
			6001 c1 A raw n X
			6002 A waiting 7`},
		{name: "its client ended, and the engine ends its claims", text: twoHold + `
			14 exit c1`, declares: func(d *history.Declares) { d.CrashRelease = "at once" }},
	})
}

// asked is so many calls of the engine itself.
func asked(calls int) string {
	var b strings.Builder
	for i := range calls {
		fmt.Fprintf(&b, "0 c1 R%d raw n%d X%d\n0 R%d held 7\n", i, i, i, i)
	}
	return b.String()
}

// unclear is an answer before which so many others may have come in any order.
func unclear(lost int) string {
	var b strings.Builder
	for i := range lost {
		fmt.Fprintf(&b, "0 c1 L%d raw n L%d\n", i, i)
	}
	return b.String() + "0 c1 L raw n L\n0 L waiting 7\n"
}

func TestTheVerdictOnTheQueueRestsOnItsOwnCalls(t *testing.T) {
	for _, r := range []struct {
		name, text string
		word       Word
		why        string
	}{
		{"enough", asked(500) + good(500, 20), NotSeen, "no violation in 500 cases and 20 strikes"},
		{"too few calls", asked(499) + good(500, 20), Void, "499 calls of the engine itself were checked, of at least 500"},
		{"none", good(500, 20), Void, "0 calls of the engine itself were checked, of at least 500"},
		{"too few strikes", asked(500) + good(500, 19), Void, "19 faults had an effect"},
		{"few leases", asked(500) + good(20, 20), NotSeen, "no violation in 500 cases and 20 strikes"},
		{"calls without an answer", unclear(1) + asked(498) + good(500, 20), Void, "499 calls of the engine itself were checked, of at least 500"},
		{"too many orders, and too few other calls", unclear(9) + asked(499) + good(500, 20), Void, "499 calls of the engine itself were checked"},
		{"too many orders", unclear(9) + asked(500) + good(500, 20), NotSeen, "; 1 call was left out, with more possible orders than are followed"},
	} {
		t.Run(r.name, func(t *testing.T) {
			events := build(t, declares(), r.text)
			got, err := History(events, Options{Queue: true})
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Of(Queue); v.Word != r.word || !strings.Contains(v.Why, r.why) {
				t.Fatalf("the verdict is %s: %s, want %s: %s", v.Word, v.Why, r.word, r.why)
			}
			// It takes its time, so it is judged only if somebody asks for it.
			got, err = History(events, Options{})
			if err != nil || slices.ContainsFunc(got.Verdicts, func(v Verdict) bool { return v.Property == Queue }) {
				t.Fatalf("%v: %+v", err, got.Verdicts)
			}
		})
	}
}
