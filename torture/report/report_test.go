package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

func at(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// told is a short history: two names, a wait, a lost lease, a killed client and two faults.
func told() []history.Event {
	const max = 1<<31 - 1
	return []history.Event{
		{Kind: history.Begin, Run: &history.Run{Engine: "redis://</script><b>x", Seed: 5, Names: []string{"a", "b"}, Declares: history.Declares{MayDouble: true}}},
		{At: at(1), Kind: history.Call, Client: "c1", Op: 1, What: history.Lock, Name: "a", Permits: max, Limit: max},
		{At: at(2), Kind: history.Answer, Client: "c1", Op: 1, Result: history.OK},
		{At: at(2.1), Kind: history.Mark, Client: "c1", Op: 1},
		{At: at(2.2), Kind: history.Call, Client: "c2", Op: 2, What: history.Lock, Name: "a", Permits: 1, Limit: max},
		{At: at(2.3), Kind: history.Strike, Fault: 1, Named: "stop", Client: "c1"},
		{At: at(2.4), Kind: history.Bit, Fault: 1, Error: "it did not answer"},
		{At: at(3), Kind: history.Mark, Client: "c1", Op: 1},
		{At: at(3.5), Kind: history.Lost, Client: "c1", Op: 1, Error: "expired"},
		{At: at(4), Kind: history.Heal, Fault: 1},
		{At: at(4), Kind: history.Answer, Client: "c2", Op: 2, Result: history.OK},
		{At: at(4.5), Kind: history.Call, Client: "c1", Op: 3, What: history.Try, Name: "b", Permits: 2, Limit: 3},
		{At: at(5), Kind: history.Answer, Client: "c1", Op: 3, Result: history.OK},
		{At: at(5.1), Kind: history.Call, Client: "c1", Op: 4, What: history.Lock, Name: "b", Permits: 3, Limit: 3},
		{At: at(5.5), Kind: history.Call, Client: "c2", Op: 5, What: history.Unlock, Of: 2},
		{At: at(6), Kind: history.Strike, Fault: 2, Named: "kill", Client: "c1"},
		{At: at(7), Kind: history.Exit, Client: "c1"},
		{At: at(8), Kind: history.Heal, Fault: 2},
	}
}

func TestThePictureHasEveryHoldAndWait(t *testing.T) {
	p := draw(told())
	if len(p.Rows) != 2 || p.End != 8000 || len(p.Faults) != 2 {
		t.Fatalf("%+v", p)
	}
	a, b := p.Rows[0], p.Rows[1]
	first, second := a.Holds[0], a.Holds[1]
	switch {
	case first.From != 2000 || first.To != 3500 || first.ProvenFrom != 2100 || first.ProvenTo != 3000 || first.Class != "exclusive" || first.Text != "exclusive, lost: expired":
		t.Errorf("%+v", first)
	case second.From != 4000 || second.To != 5500 || second.Class != "shared" || second.Lane != 0:
		t.Errorf("%+v", second)
	case len(a.Waits) != 2 || a.Waits[1].From != 2200 || a.Waits[1].To != 4000:
		t.Errorf("%+v", a.Waits)
	case len(b.Holds) != 1 || b.Holds[0].To != 7000 || b.Holds[0].Class != "permits" || b.Holds[0].Text != "permits, its client ended":
		t.Errorf("%+v", b.Holds)
	case len(b.Waits) != 1 || b.Waits[0].To != 7000:
		t.Errorf("%+v", b.Waits)
	case p.Faults[0].Class != "bit" || p.Faults[1].Class != "missed" || p.Faults[0].To != 4000:
		t.Errorf("%+v", p.Faults)
	}
}

// A trial that was cut short may end with a call that hangs: that is what to look at.
func TestACallThatNeverReturnedWaitsToTheEnd(t *testing.T) {
	for what, c := range map[string]struct {
		more []history.Event
		to   float64
		text string
	}{
		"open":             {nil, 9000, "lock: no answer"},
		"answered":         {[]history.Event{{At: at(8.5), Kind: history.Answer, Client: "c3", Op: 6, Result: history.Gave}}, 8500, "lock: gave up"},
		"its client ended": {[]history.Event{{At: at(8.5), Kind: history.Exit, Client: "c3"}}, 8500, "its client ended"},
	} {
		t.Run(what, func(t *testing.T) {
			events := append(told(),
				history.Event{At: at(8.1), Kind: history.Call, Client: "c3", Op: 6, What: history.Lock, Name: "c", Permits: 1, Limit: 1},
				history.Event{At: at(8.2), Kind: history.Call, Client: "c3", Op: 7, What: history.Try, Name: "c", Permits: 1, Limit: 1})
			events = append(events, c.more...)
			p := draw(append(events, history.Event{At: at(9), Kind: history.Start, Client: "c4"}))
			want := Span{From: 8100, To: c.to, Client: "c3", Text: c.text}
			if r := p.Rows[len(p.Rows)-1]; r.Name != "c" || len(r.Waits) != 1 || r.Waits[0] != want {
				t.Errorf("got %+v, want one wait, %+v", r, want)
			}
		})
	}
}

func TestThePageIsOneFileAndEscapesWhatOthersWrote(t *testing.T) {
	var page bytes.Buffer
	err := Write(&page, told(), &check.Result{
		Verdicts: []check.Verdict{{Property: check.Exclusion, Word: check.Violated, Why: "c1 & c2 <both>"}},
		Findings: []check.Finding{{Property: check.Exclusion, At: at(3), Text: "<i>two</i>", Lines: []int{4, 7}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, must := range []string{"cut short", "redis://&lt;/script&gt;", "c1 &amp; c2 &lt;both&gt;", `class="violated"`, "may grant twice", "&lt;i&gt;two", "3.000 s", "<td>4 7</td>", "const data = {\"end\":8000"} {
		if !strings.Contains(text, must) {
			t.Errorf("the page does not have %q", must)
		}
	}
	for _, not := range []string{"<b>x", "http://", "https://", "src=", "@import", "@tables@", "@settings@"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// What somebody else wrote cannot stand for a part of the page, nor end its script.
func TestTextsOfAHistoryArePutInOnce(t *testing.T) {
	events := told()
	events[0].Run.Engine = "@picture@"
	events[1].Name = "</script>@tables@"
	var page bytes.Buffer
	if err := Write(&page, events, nil); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "</script>"); n != 1 {
		t.Errorf("%d scripts end", n)
	}
	if strings.Count(text, "const data = {") != 1 || !strings.Contains(text, "<h1>A trial of locks: @picture@</h1>") || !strings.Contains(text, "contradicts itself") {
		t.Errorf("the page is another:\n%.2000s", text)
	}
}
