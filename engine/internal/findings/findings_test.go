package findings

import (
	"errors"
	"reflect"
	"testing"

	"leasehold/engine"
)

func TestNamesThatCount(t *testing.T) {
	byDefault := New(engine.ExamineOptions{})
	chosen := New(engine.ExamineOptions{Names: []string{"job:?.*", "[x]"}})
	for name, want := range map[string][2]bool{
		"order:LOCK:7": {true, false}, "mutex": {true, false}, "a\nlease": {true, false}, "order": {false, false},
		"job:1.a": {false, true}, "job:12a": {false, false}, "[x]": {false, true}, "x": {false, false},
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
