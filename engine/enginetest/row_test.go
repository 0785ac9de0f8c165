package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

func TestACellHidesWhatWasNotTested(t *testing.T) {
	of := func(os ...Outcome) (rs []Result) {
		for _, o := range os {
			rs = append(rs, Result{Outcome: o})
		}
		return rs
	}
	for _, c := range []struct {
		of   []Result
		want string
	}{
		{of(), "not exercised"},
		{of(Pass, Pass), "pass"},
		{of(Pass, Fail, NotExercised), "FAIL"},
		{of(Refused, Refused), "refused"},
		{of(NotDeclared), "not declared"},
		{of(NotExercised, NotExercised), "not exercised"},
		{of(Pass, NotExercised, Pass, NotExercised), "pass, 2 not exercised"},
		{of(Refused, NotExercised), "1 refused, 1 not exercised"},
		{of(Pass, NotDeclared, Refused, NotExercised), "pass, 1 refused, 1 not declared, 1 not exercised"},
	} {
		if got := cell(c.of); got != c.want {
			t.Errorf("%v: %q, want %q", c.of, got, c.want)
		}
	}
}

func TestARowThatDiffersIsTakenForCommitted(t *testing.T) {
	measured := func(o Outcome) Row {
		return newRow("x", engine.Guarantees{}, []Result{{Promise: "order", Case: "c", Outcome: o, Why: "because"}})
	}
	publish := func(r Row, env, committed string) string {
		t.Setenv("LEASEHOLD_GUARANTEES", env)
		rec := &recorder{TB: t}
		rec.run(func() { r.publish(rec, committed) })
		if !rec.Failed() {
			return ""
		}
		return rec.said("\n")
	}
	dir := filepath.Join(t.TempDir(), "rows")
	if got := publish(measured(Refused), "", dir); !strings.Contains(got, "no row of x is committed") {
		t.Errorf("nothing is committed: %q", got)
	}
	if got := publish(measured(Refused), dir, dir); got != "" {
		t.Errorf("writing a row: %q", got)
	}
	if got := publish(measured(Refused), "", dir); got != "" {
		t.Errorf("the very row that is committed: %q", got)
	}
	if got := publish(measured(NotExercised), "", dir); !strings.Contains(got, "differs from the committed one") {
		t.Errorf("another row than the committed one: %q", got)
	}
	if got := publish(measured(NotExercised), "", ""); got != "" {
		t.Errorf("nothing to compare with: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.json")); err != nil {
		t.Error(err)
	}
}

// A skipped case must show why, and a case a hook skipped must not pass.
func TestASkippedCasePasses(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(*trial)
		want Result
	}{
		"returns":       {func(*trial) {}, Result{Outcome: Pass}},
		"fails":         {func(t *trial) { t.Error("no") }, Result{Outcome: Fail}},
		"fails late":    {func(t *trial) { t.Cleanup(func() { t.Error("no") }) }, Result{Outcome: Fail}},
		"lacks a hook":  {func(t *trial) { t.notExercised("Kill") }, Result{Outcome: NotExercised, Why: "the harness has no Kill"}},
		"not declared":  {func(t *trial) { t.notDeclared("none") }, Result{Outcome: NotDeclared, Why: "none"}},
		"a hook skips":  {func(t *trial) { t.Skip("no server") }, Result{Outcome: NotExercised, Why: "skipped by a hook of the harness"}},
		"fails, skips":  {func(t *trial) { t.Error("no"); t.notDeclared("none") }, Result{Outcome: Fail}},
		"always spoilt": {func(t *trial) { t.tooSlow("no") }, Result{Outcome: Fail}},
	} {
		t.Run(name, func(t *testing.T) {
			var results []Result
			r := &recorder{TB: t}
			r.run(func() {
				try(r, Harness{}.withDefaults(engine.Guarantees{}), engine.Guarantees{}, promise{}, kase{run: c.run}, &results)
			})
			if len(results) != 1 || results[0] != c.want {
				t.Errorf("got %+v, want %+v", results, c.want)
			}
		})
	}
}

// A busy machine spoils a case by letting a claim end early: it is run again.
func TestASpoilingMachineIsBlamedOnTheEngine(t *testing.T) {
	runs := 0
	var results []Result
	r := &recorder{TB: t}
	r.run(func() {
		try(r, Harness{}.withDefaults(engine.Guarantees{}), engine.Guarantees{}, promise{}, kase{run: func(t *trial) {
			if runs++; runs < 3 {
				t.mortal[engine.NewID()] = 0 // long over
				t.Fatalf("run %d", runs)
			}
		}}, &results)
	})
	if runs != 3 || len(results) != 1 || results[0].Outcome != Pass {
		t.Errorf("%d runs, %+v", runs, results)
	}
}

// Some names are the same in every attempt: what a spoiled one holds is not to be in
// the way of the next.
func TestASpoiledAttemptGoesOnHolding(t *testing.T) {
	store := memlock.NewStore(nil)
	h := Harness{New: func(testing.TB) engine.Engine { return store.Engine() }}.withDefaults(engine.Guarantees{})
	runs := 0
	var results []Result
	r := &recorder{TB: t}
	r.run(func() {
		try(r, h, engine.Guarantees{}, promise{}, kase{run: func(t *trial) {
			c := t.client().hold(t.exclusive("the same"))
			if runs++; runs < 3 {
				t.mortal[c.ID] = 0 // long over
				t.Fatalf("run %d", runs)
			}
		}}, &results)
	})
	if runs != 3 || len(results) != 1 || results[0].Outcome != Pass {
		t.Errorf("%d runs, %+v: %s", runs, results, r.said("; "))
	}
}
