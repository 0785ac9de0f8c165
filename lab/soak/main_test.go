package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leasehold/engines"
	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/check"
)

// TestMain is also the clients of the trials.
func TestMain(m *testing.M) {
	if torture.Client(engines.Open) {
		return
	}
	os.Exit(m.Run())
}

// outcomes reads trials.jsonl.
func outcomes(t *testing.T, dir string) (all []outcome) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "trials.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); lines.More(); {
		var x outcome
		if err := lines.Decode(&x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// A soak in small: an engine without a server and one with, in turns, under every fault. What
// it prints and leaves behind is what hours of it would.
func TestASoakInSmall(t *testing.T) {
	servers.Need(t, "redis-server", "cc")
	t.Parallel()
	long := "60s"
	if testing.Short() {
		long = "30s"
	}
	dir := filepath.Join(t.TempDir(), "out")
	var out strings.Builder
	code, err := command(t.Context(), []string{"-for", long, "-only", "^(filelock|queuelock)$", "-out", dir, "-seed", "40", "-ttl", "400ms", "-clients", "3"}, &out)
	t.Log(out.String())
	if err != nil || code != 0 && code != codeVoid {
		t.Fatalf("exit code %d, %v", code, err)
	}
	trials := outcomes(t, dir)
	if len(trials) != 2 || trials[0].Engine != "filelock" || trials[1].Engine != "queuelock" {
		t.Fatalf("%d trials", len(trials))
	}
	leases := 0
	for i, x := range trials {
		if x.wrong() || x.Result == nil || x.Seed != uint64(41+i) {
			t.Errorf("%+v", x)
			continue
		}
		leases += x.Result.Stats.Grants
		if _, err := os.Stat(filepath.Join(x.Dir, torture.Report)); err != nil {
			t.Error(err)
		}
		// It was judged, and nobody needs it any more.
		if _, err := os.Stat(filepath.Join(x.Dir, torture.History)); err == nil {
			t.Errorf("the history of %s is left", x.Dir)
		}
		if line := x.Dir + ", seed "; strings.Count(out.String(), line) != 1 {
			t.Errorf("no line of %s", x.Dir)
		}
	}
	// A directory has no network; all else comes to it.
	if n := strings.Join(trials[0].Notes, "\n"); !strings.Contains(n, "wire was left out: ") || strings.Contains(n, "kill") {
		t.Errorf("notes: %q", trials[0].Notes)
	}
	// Where nothing is missing, neither root nor a compiler, all comes to a server.
	if os.Getenv("LEASEHOLD_REQUIRE") == "all" && len(trials[1].Notes) > 0 {
		t.Errorf("notes: %q", trials[1].Notes)
	}
	effects := 0
	for _, f := range trials[1].Result.Stats.Faults {
		effects += f.Bit
	}
	if leases < 100 || effects == 0 {
		t.Errorf("%d leases, %d faults with an effect", leases, effects)
	}
	table, err := os.ReadFile(filepath.Join(dir, "summary.txt"))
	if err != nil || !strings.Contains(out.String(), string(table)) {
		t.Errorf("%v: %s", err, table)
	}
	for _, row := range []string{`(?m)^filelock +1 `, `(?m)^queuelock +1 `} {
		if !regexp.MustCompile(row).Match(table) {
			t.Errorf("no row %s in\n%s", row, table)
		}
	}
}

func TestAnInterruptedSoakHasATable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "out")
	var out strings.Builder
	code, err := command(ctx, []string{"-only", "^filelock$", "-out", dir, "-keep"}, &out)
	if err != nil || code != codeVoid || !strings.Contains(out.String(), "void: too few") {
		t.Fatalf("exit code %d, %v:\n%s", code, err, out.String())
	}
	trials := outcomes(t, dir)
	if len(trials) != 1 || trials[0].wrong() || !trials[0].Result.Cut {
		t.Fatalf("%+v", trials)
	}
	if _, err := torture.Judge(trials[0].Dir); err != nil {
		t.Errorf("the history that was to be kept: %v", err)
	}
}

func TestWhatCannotBeSoakedIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-only", "absent"}, {"-only", "("}, {"-for", "long"}} {
		code, err := command(t.Context(), append(args, "-out", filepath.Join(t.TempDir(), "out")), &strings.Builder{})
		if code != codeUsage || err == nil {
			t.Errorf("%q: exit code %d, %v", args, code, err)
		}
	}
}

// What a trial found decides the exit code, and stays in the table.
func TestTheTable(t *testing.T) {
	judged := func(grants, struck, found, declared int) *check.Result {
		return &check.Result{
			Stats:    check.Stats{Grants: grants, Faults: []check.Fault{{Nemesis: "kill", Strikes: struck + 1, Bit: struck, Struck: struck}}},
			Verdicts: []check.Verdict{{Property: check.Exclusion, Found: found, Declared: declared}},
		}
	}
	weak := judged(500, 20, 0, 0)
	weak.Verdicts[0].Word = check.TooWeak
	for name, c := range map[string]struct {
		trials []outcome
		code   int
		row    string
	}{
		"enough in two trials": {[]outcome{{Result: judged(300, 10, 0, 0)}, {Result: judged(300, 20, 0, 0)}}, 0, "e 2 600 0 32 30 0 0 not seen: below 0.1 of strikes kill 30"},
		"too few leases":       {[]outcome{{Result: judged(499, 30, 0, 0)}}, codeVoid, "e 1 499 0 31 30 0 0 void: too few kill 30"},
		"too few strikes":      {[]outcome{{Result: judged(500, 19, 0, 0)}}, codeVoid, "e 1 500 0 20 19 0 0 void: too few kill 19"},
		"a violation":          {[]outcome{{Result: judged(500, 20, 3, 2)}, {Result: judged(500, 20, 0, 0)}}, codeViolated, "e 2 1000 0 42 40 2 1 VIOLATED kill 40"},
		"as declared":          {[]outcome{{Result: judged(500, 20, 2, 2)}}, 0, "e 1 500 0 21 20 2 0 not seen: below 0.15 of strikes kill 20"},
		"one that failed":      {[]outcome{{Failed: "no server"}, {Result: judged(500, 20, 0, 0)}}, codeViolated, "e 2 500 0 21 20 0 0 FAILED kill 20"},
		"claims are left":      {[]outcome{{Result: judged(500, 20, 0, 0), Left: []string{"n"}}}, codeViolated, "e 1 500 0 21 20 0 0 LEFT CLAIMS kill 20"},
		"not as declared":      {[]outcome{{Result: weak}}, codeVoid, "e 1 500 0 21 20 0 0 too weak to show what it declares kill 20"},
		"as declared at last":  {[]outcome{{Result: weak}, {Result: judged(500, 20, 1, 1)}}, 0, "e 2 1000 0 42 40 1 0 not seen: below 0.075 of strikes kill 40"},
		"no trial":             {nil, codeVoid, "e 0 0 0 0 0 0 0 void: too few"},
	} {
		total := newTotal([]deployment{{engine: "e"}})
		for _, x := range c.trials {
			x.Engine = "e"
			total.add(x)
		}
		_, row, _ := strings.Cut(total.String(), "\n")
		if got := strings.Join(strings.Fields(row), " "); got != c.row || total.code() != c.code {
			t.Errorf("%s: exit code %d, %q", name, total.code(), got)
		}
	}
}
