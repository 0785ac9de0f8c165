package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"leasehold/lab/bench/harness"
)

// The test binary is its own worker, as the command is.
func TestMain(m *testing.M) {
	if os.Getenv(harness.WorkerEnv) != "" {
		if err := harness.Work(find); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(2)
		}
		return
	}
	os.Exit(m.Run())
}

func TestBrokenLocksStarvationAndMiscountsAreNoticed(t *testing.T) {
	if err := selfTests(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A slip in a table of names would otherwise show only after minutes.
func TestFamiliesAreWhole(t *testing.T) {
	for _, f := range suites() {
		workloads, bars := map[string]bool{}, map[string]bool{}
		for _, w := range f.Workloads {
			if workloads[w.ID] {
				t.Errorf("%s: two workloads %s", f.Name, w.ID)
			}
			workloads[w.ID] = true
			if w.Measure == nil || w.Title == "" || w.How == "" {
				t.Errorf("%s/%s is not described or cannot be measured", f.Name, w.ID)
			}
			if !slices.ContainsFunc(w.Columns, func(c harness.Column) bool { return c.Key == w.Main }) {
				t.Errorf("%s/%s: its main figure %q is no column", f.Name, w.ID, w.Main)
			}
			for _, name := range w.Competitors {
				if _, err := f.Competitor(name); err != nil {
					t.Errorf("%s/%s: %v", f.Name, w.ID, err)
				}
			}
		}
		for _, p := range f.Competitors {
			if p.About == "" {
				t.Errorf("%s: %s says nothing of itself", f.Name, p.Name)
			}
		}
		for _, b := range f.Targets {
			if bars[b.ID] {
				t.Errorf("%s: two bars %s", f.Name, b.ID)
			}
			bars[b.ID] = true
		}
	}
}

func TestExpectedMissesNameBarsThatExist(t *testing.T) {
	expected, err := harness.ReadExpected(expectedJSON)
	if err != nil {
		t.Fatal(err)
	}
	for id := range expected {
		suite, target, _ := strings.Cut(id, "/")
		found := slices.ContainsFunc(suites(), func(f *harness.Suite) bool {
			return f.Name == suite && slices.ContainsFunc(f.Targets, func(b harness.Target) bool { return b.ID == target })
		})
		if !found {
			t.Errorf("expected.json: there is no target %s", id)
		}
	}
}
