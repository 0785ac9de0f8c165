package findings

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"leasehold/engine"
)

func TestNamesThatCount(t *testing.T) {
	byDefault := New(engine.ExamineOptions{})
	chosen := New(engine.ExamineOptions{Names: []string{"job:?.*", "[x]", "\xff*"}}) // the last one is not UTF-8
	for name, want := range map[string][2]bool{
		"order:LOCK:7": {true, false}, "mutex": {true, false}, "a\nlease": {true, false}, "order": {false, false},
		"job:1.a": {false, true}, "job:12a": {false, false}, "[x]": {false, true}, "x": {false, false},
		"\xff\x01": {false, true}, "a\xff": {false, false}, "\xff lock": {true, true},
	} {
		if got := [2]bool{byDefault.Counts(name), chosen.Counts(name)}; got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// TestOneHeadingIsOneFinding, with the first of what it is about, the worst severity, and
// the worst finding first.
func TestOneHeadingIsOneFinding(t *testing.T) {
	l := New(engine.ExamineOptions{Limit: -1})
	if l.Limit != DefaultLimit {
		t.Errorf("the limit is %d", l.Limit)
	}
	l.Unread("keys", errors.New("NOPERM"), "+scan")
	for i := range 7 {
		f := engine.Finding{Severity: engine.SeverityWarning, What: "h", Means: "w", Do: "d"}
		if i == 3 {
			f.Severity, f.Means = engine.SeverityProblem, "p"
		}
		l.Add(f, "k%d", i)
	}
	var got []engine.Finding
	l.Report(func(f engine.Finding) { got = append(got, f) })
	want := []engine.Finding{
		{Severity: engine.SeverityProblem, What: "h: k0, k1, k2, k3, k4 and 2 more", Means: "p", Do: "d"},
		{
			Severity: engine.SeverityNote, What: "not read: keys: NOPERM",
			Means: "This report says nothing about that part of the store.",
			Do:    "Grant the user of the URL +scan, or use another user.",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestWhatWasNotReadNamesEachRight: of each part, and none where the user was not refused.
func TestWhatWasNotReadNamesEachRight(t *testing.T) {
	for _, c := range []struct {
		rights []string
		want   string
	}{
		{[]string{""}, "Try again, or ask the operator of the store."},
		{[]string{"+info", "+scan", "+info"}, "Grant the user of the URL +info, and +scan, or use another user."},
		{[]string{"", "+info"}, "Grant the user of the URL +info, or use another user. For the rest try again, or ask the operator of the store."},
	} {
		l := New(engine.ExamineOptions{})
		for _, right := range c.rights {
			l.Unread("keys", errors.New("no"), right)
		}
		l.Report(func(f engine.Finding) {
			if f.Do != c.want {
				t.Errorf("%q: %s", c.rights, f.Do)
			}
		})
	}
}

// TestAFindingIsBounded: a name may be as long as a value, an error may have many lines.
func TestAFindingIsBounded(t *testing.T) {
	l := New(engine.ExamineOptions{})
	f := engine.Finding{What: "h", Means: "w", Do: "d"}
	for range 9 {
		l.Add(f, "%q of a server", strings.Repeat("\u00fc\x01", 100_000))
	}
	l.Add(engine.Finding{What: "e"}, "a: %v", errors.Join(errors.New("b: refused"), errors.New("c:\n\td")))
	l.Report(func(f engine.Finding) {
		if len(f.What) > 6000 || f.What[0] == 'h' && (!strings.Contains(f.What, "of a server") || !utf8.ValidString(f.What)) {
			t.Errorf("a finding has %d bytes: %.100s", len(f.What), f.What)
		}
		if f.What[0] == 'e' && f.What != "e: a: b: refused; c: d" {
			t.Errorf("%q", f.What)
		}
	})
}

func TestAges(t *testing.T) {
	for seconds, want := range map[float64]string{90: "1m30s", -5: "-5s", 63_900_000_000: "more than ten years"} {
		if got := Age(seconds); got != want {
			t.Errorf("%v: %s", seconds, got)
		}
	}
}
