package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"leasehold/engine"
)

// Row is one engine's column of the table, as committed.
type Row struct {
	Engine   string   `json:"engine"`
	Declared []Entry  `json:"declared"` // engine.Guarantees in words
	Promises []Entry  `json:"promises"` // what the suite found
	Remarks  []string `json:"remarks"`  // every case that was not put to the test, and why
}

// Entry is one cell. The order of entries is the order of the table.
type Entry struct {
	Name string `json:"name"`
	Cell string `json:"cell"`
}

func newRow(name string, g engine.Guarantees, results []Result) Row {
	row := Row{Engine: name, Declared: declared(g), Remarks: []string{}}
	for _, p := range promises() {
		var of []Result
		for _, r := range results {
			if r.Promise == p.name {
				of = append(of, r)
			}
		}
		row.Promises = append(row.Promises, Entry{p.name, cell(of)})
		for _, r := range of {
			if r.Why != "" {
				row.Remarks = append(row.Remarks, fmt.Sprintf("%s: %s: %s (%s)", p.name, r.Case, r.Outcome, r.Why))
			}
		}
	}
	return row
}

// cell sums up a promise: a failure hides everything, and what was not put to
// the test is never hidden behind what passed.
func cell(of []Result) string {
	n := map[Outcome]int{}
	for _, r := range of {
		n[r.Outcome]++
	}
	if n[Fail] > 0 {
		return string(Fail)
	}
	var parts []string
	for _, o := range []Outcome{Pass, Refused, NotDeclared, NotExercised} {
		switch {
		case n[o] == 0:
		case o == Pass || n[o] == len(of):
			parts = append(parts, string(o))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n[o], o))
		}
	}
	if len(parts) == 0 {
		return string(NotExercised)
	}
	return strings.Join(parts, ", ")
}

func declared(g engine.Guarantees) []Entry {
	ttl := func(d, otherwise fmt.Stringer, set bool) string {
		if set {
			return d.String()
		}
		return otherwise.String()
	}
	yes := map[bool]string{true: "yes", false: "no"}
	return []Entry{
		{"Order", g.Order.String()},
		{"Modes", g.Modes.String()},
		{"Fencing", g.Fencing.String()},
		{"Failover", g.Failover.String()},
		{"Scope", g.Scope.String()},
		{"CrashRelease", g.CrashRelease.String()},
		{"Detach", yes[g.Detach]},
		{"SeesWaiters", yes[g.SeesWaiters]},
		{"MinTTL", ttl(g.MinTTL, engine.MinTTL, g.MinTTL > 0)},
		{"MaxTTL", ttl(g.MaxTTL, engine.MaxTTL, g.MaxTTL > 0)},
	}
}

// text is the row for a terminal.
func (r Row) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, e := range append(r.Declared, r.Promises...) {
		fmt.Fprintf(w, "%s\t%s\n", e.Name, e.Cell)
	}
	w.Flush()
	for _, s := range r.Remarks {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	return b.String()
}

// publish writes the row where LEASEHOLD_GUARANTEES says, or else compares it
// with the committed one.
func (r Row) publish(t testing.TB, committed string) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	file := r.Engine + ".json"
	if dir := os.Getenv("LEASEHOLD_GUARANTEES"); dir != "" {
		if t.Failed() {
			t.Log("the suite failed: the row is not written")
			return
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), text, 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if committed == "" {
		return
	}
	const how = "if the engine is right, run this test once more with LEASEHOLD_GUARANTEES=<folder of the rows>, then `go run ./engine/enginetest/table`, and commit both"
	want, err := os.ReadFile(filepath.Join(committed, file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("no row of %s is committed: %s", r.Engine, how)
	case err != nil:
		t.Error(err)
	case string(want) != string(text):
		t.Errorf("the row of %s differs from the committed one: %s\nmeasured:\n%s\ncommitted:\n%s", r.Engine, how, text, want)
	}
}
