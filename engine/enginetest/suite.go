package enginetest

import (
	"slices"
	"strings"
	"testing"

	"leasehold/engine"
)

// promise is one row of the table: one file of this package.
type promise struct {
	name  string
	about string // one sentence for docs/guarantees.md
	cases []kase
}

// kase is one subtest, named after what holds.
type kase struct {
	name string
	run  func(t *trial)
}

// promises is the suite, in the order of the table.
func promises() []promise {
	return []promise{
		exclusion(), order(), shared(), permits(),
		expiry(), renewal(), oneWay(),
		contention(), wakeUp(), loss(), leave(), tokens(),
		idempotence(), cancellation(), noWait(), replaces(), detached(),
		inspection(), revocation(), limits(), names(), manyNames(), batches(),
		orphans(), crowded(), refusing(), hostile(),
		crash(), lifecycle(), leaks(),
	}
}

// Outcome is the result of one case, or of a whole promise.
type Outcome string

const (
	Pass         Outcome = "pass"
	Refused      Outcome = "refused"       // not declared, and refused with errors.ErrUnsupported, as it must be
	NotDeclared  Outcome = "not declared"  // not promised, and no request could ask for it
	NotExercised Outcome = "not exercised" // the harness lacks a hook
	Fail         Outcome = "FAIL"
)

// Result is the outcome of one case.
type Result struct {
	Promise string  `json:"promise"`
	Case    string  `json:"case"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"` // for all but pass and fail
}

// Run checks every promise against the engine, prints the table and, as the
// environment and the harness ask, writes or compares the row. Not to be
// called from parallel tests that share a store: some cases restart it. With
// [Harness.SideBySide] the caller leaves the store open until the end of t.
func Run(t *testing.T, h Harness) {
	if h.Name == "" || h.New == nil {
		t.Fatal("enginetest: a Harness needs Name and New")
	}
	g := guaranteesOf(t, h)
	h = h.withDefaults(g)
	var cases [][]Result // one of each case: those side by side write at the same time
	for _, p := range promises() {
		first := len(cases)
		cases = append(cases, make([][]Result, len(p.cases))...)
		beside := func(c kase) bool { return h.SideBySide && p.isLocal(c) }
		for _, parallel := range []bool{false, true} {
			if !slices.ContainsFunc(p.cases, func(c kase) bool { return beside(c) == parallel }) {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				if parallel {
					t.Parallel()
				}
				for i, c := range p.cases {
					if beside(c) != parallel {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						if parallel {
							t.Parallel()
						}
						try(t, h, g, p, c, &cases[first+i])
					})
				}
			})
		}
	}
	t.Cleanup(func() { // those side by side go on when Run returns
		results := slices.Concat(cases...)
		row := newRow(h.Name, g, results)
		t.Logf("%s\n%s", h.Name, row.text())
		if len(results) < len(cases) {
			t.Log("only part of the suite ran (-run): the row is neither written nor compared")
			return
		}
		row.publish(t, h.Committed)
	})
}

// isLocal reports whether a case of a promise concerns names and clients of its own
// alone. The others restart, fill, count or list a whole store, or hurry it.
func (p promise) isLocal(c kase) bool {
	switch p.name {
	case expiry().name, renewal().name, oneWay().name, wakeUp().name, leave().name, idempotence().name,
		cancellation().name, noWait().name, replaces().name, detached().name, inspection().name, revocation().name:
		return true
	case loss().name, tokens().name, crash().name:
		return !strings.Contains(c.name, "the server forg") && !strings.Contains(c.name, "restart of the server")
	}
	return false
}

func guaranteesOf(t testing.TB, h Harness) engine.Guarantees {
	e := h.New(t)
	g := e.Guarantees()
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	return g
}

// try runs one case. The outcome is settled in a clean-up that runs after all
// others, because closing an engine may fail a case too.
func try(tb testing.TB, h Harness, g engine.Guarantees, p promise, c kase, results *[]Result) {
	t := &trial{TB: tb, h: h, g: g}
	tb.Cleanup(func() {
		r := Result{Promise: p.name, Case: c.name, Outcome: Pass}
		switch {
		case tb.Failed():
			r.Outcome = Fail
		case t.outcome != "":
			r.Outcome, r.Why = t.outcome, t.why
		case tb.Skipped():
			r.Outcome, r.Why = NotExercised, "skipped by a hook of the harness"
		}
		*results = append(*results, r)
	})
	for range attempts {
		if t.attempt(c.run) {
			return
		}
	}
	tb.Fatalf("%d times a claim of %v ended before it was meant to: raise Harness.ShortTTL; the last time: %s", attempts, t.short(), t.spoiled)
}
