package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page is what the committed rows say. Each engine's conformance test
// compares its row with what it measures, so the page is what was measured.
func TestThePageIsNotWhatTheRowsSay(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(string(page), "../../../docs/guarantees")
	if err != nil {
		t.Fatal(err)
	}
	if want != string(page) {
		t.Error("docs/guarantees.md differs from the committed rows: `go run ./engine/enginetest/table` at the root of the repository, and commit it")
	}
}

func TestOtherTextOfThePageIsLost(t *testing.T) {
	page := "above\n" + begin + "old\n" + end + "below\n"
	got, err := render(page, "../../../docs/guarantees")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "above\n"+begin) || !strings.HasSuffix(got, end+"below\n") || strings.Contains(got, "old\n") {
		t.Errorf("rendered:\n%s", got)
	}
	if _, err := render("no markers", "../../../docs/guarantees"); err == nil {
		t.Error("a page without markers is overwritten")
	}
}

// engineRow is the begin of a row of the tables of assumptions.
var engineRow = regexp.MustCompile(`(?m)^\| ([a-z]+) \| (.*) \|$`)

// assumptions are the tables of assumptions of a page that begin with each engine: the
// rows of each by engine, as cells.
func assumptions(page string) (tables []map[string][]string) {
	_, rest, _ := strings.Cut(page, "\n## What each engine assumes\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	for part := range strings.SplitSeq(section, "\n| engine |") {
		rows := map[string][]string{}
		for _, m := range engineRow.FindAllStringSubmatch(part, -1) {
			rows[m[1]] = strings.Split(m[2], " | ")
		}
		tables = append(tables, rows)
	}
	return tables[1:]
}

// What an engine assumes is prose, since no run of the suite can measure it. But no engine
// may be left out, and whether it checks its server's settings again is seen in its source.
func TestAnEngineDoesNotSayWhatItAssumes(t *testing.T) {
	const root = "../../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	tables := assumptions(string(page))
	if len(tables) != 2 {
		t.Fatalf("docs/guarantees.md has %d tables of what each engine assumes and checks, not 2", len(tables))
	}
	rows, err := filepath.Glob(filepath.Join(root, "docs", "guarantees", "*.json"))
	if err != nil || len(rows) == 0 {
		t.Fatalf("no rows: %v", err)
	}
	engines := map[string]bool{}
	for _, row := range rows {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(row), ".json"), "-")
		engines[name] = true
	}
	for name := range engines {
		for _, table := range tables {
			if cells := table[name]; len(cells) != 3 {
				t.Errorf("docs/guarantees.md: %s has %d cells of three in a table of what engines assume", name, len(cells))
			}
		}
		if cells := tables[1][name]; len(cells) == 3 {
			says := !strings.HasPrefix(cells[1], "nothing") && !strings.HasPrefix(cells[1], "no settings")
			// plainlock has a check that no subscription asks for: see its
			// TestItsOneSubscriptionNeverBeginsAgain.
			if does := checks(t, root, name) && name != "plainlock"; says != does {
				t.Errorf("docs/guarantees.md: %s checks its server's settings again: %v; the page: %q", name, does, cells[1])
			}
		}
	}
	for _, table := range tables {
		if len(table) != len(engines) {
			t.Errorf("docs/guarantees.md: a table of what engines assume has %d engines, and there are %d", len(table), len(engines))
		}
	}
}

// checks reports whether the package of an engine says that it is an engine.Checker.
func checks(t *testing.T, root, name string) bool {
	t.Helper()
	var sources []string
	for _, pattern := range []string{"engine/" + name + "/*.go", "engine/*/" + name + "/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, files...)
	}
	if len(sources) == 0 {
		t.Fatalf("there is no package %s", name)
	}
	for _, file := range sources {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "engine.Checker = (*Engine)(nil)") {
			return true
		}
	}
	return false
}
