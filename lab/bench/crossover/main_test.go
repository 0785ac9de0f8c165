package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	markers "leasehold/lab/internal/page"
	"leasehold/lab/servers"
)

// TestEachWayIsMeasuredAndLosesNothing: measure itself fails on a lost update.
func TestEachWayIsMeasuredAndLosesNothing(t *testing.T) {
	servers.Need(t, "postgres", "initdb", "psql")
	results, err := measure(t.Context(), 300*time.Millisecond, 1, []int{1, 8})
	if err != nil {
		t.Fatal(err)
	}
	for i, ways := range [][]string{{"one statement", "version column", "row lock", "leasehold"}, {"version column", "row lock", "leasehold"}} {
		r := results[i]
		t.Logf("%s\n%s", r.title, r.table())
		if strings.Join(r.ways, ", ") != strings.Join(ways, ", ") {
			t.Errorf("%s: %v", r.name, r.ways)
		}
		for _, w := range ways {
			for _, n := range []int{1, 8} {
				if r.cells[w][n].rate() <= 0 {
					t.Errorf("%s, %s, %d writers: no update", r.name, w, n)
				}
			}
		}
		if r.cells["version column"][8].conflicts == 0 {
			t.Errorf("%s: eight writers, and no conflict", r.name)
		}
	}
}

func TestThePageHasTablesAndPlotsForBothGrounds(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	begin, end := markers.Markers("crossover")
	if err := os.WriteFile(page, []byte("before\n"+begin+"what was there\n"+end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &result{name: "short", title: "A title", ways: []string{"version column", "leasehold"}, writers: []int{1, 2},
		cells: map[string]map[int]*cell{
			"version column": {1: {rates: []float64{100}, updates: 10}, 2: {rates: []float64{50}, updates: 10, conflicts: 5, gaveUp: 10}},
			"leasehold":      {1: {rates: []float64{80}}, 2: {rates: []float64{81, 79, 90}}},
		}}
	if err := write(page, []*result{r}, time.Second, 3); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "| 1 | **100** | 80 | 1.00 | 0.0 % |", "| 2 | 50 | **81** | 1.50 | 50.0 % |", "after\n", "plots/crossover-short-dark.svg"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "what was there") {
		t.Error("the old tables are still there")
	}
	for _, ground := range []string{"light", "dark"} {
		if svg, err := os.ReadFile(filepath.Join(dir, "plots", "crossover-short-"+ground+".svg")); err != nil || !strings.Contains(string(svg), "version column") {
			t.Error(ground, err)
		}
	}
	if err := os.WriteFile(page, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(page, []*result{r}, time.Second, 3); err == nil {
		t.Error("a page without markers was written")
	}
}
