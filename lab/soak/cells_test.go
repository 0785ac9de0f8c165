package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold/lab/servers"
	"leasehold/torture"
)

func TestWhatACellOfStrikesSays(t *testing.T) {
	for want, trials := range map[string]cells{
		"0 of 30: below 0.1":     {{Leases: 300, Struck: 10}, {Leases: 300, Struck: 20}},
		"void: 19 of 900 leases": {{Leases: 900, Struck: 19}},
		"void: 30 of 499 leases": {{Leases: 499, Struck: 30}},
		"**1 of 30**":            {{Leases: 300, Struck: 10, Doubled: 1}, {Leases: 300, Struck: 20}},
		"3 of 30, as declared":   {{Leases: 300, Struck: 30, Doubled: 3, Declared: true}},
		"does not come":          {{Absent: "no network"}},
		"failed":                 {{Failed: "no server"}},
		"0 of 100: below 0.03":   {{Failed: "no server"}, {Leases: 500, Struck: 100}},
		"0 of 25: below 0.12":    {{Leases: 500, Struck: 25}, {Engine: "other", Struck: 9, Doubled: 9}},
		"0 of 60: below 0.05":    {{Leases: 500, Struck: 60, Found: map[string]int{"liveness": 1}}},
		"2 of 20, as declared":   {{Leases: 250, Struck: 10, Doubled: 2, Declared: true}, {Leases: 250, Struck: 10}},
	} {
		for i := range trials {
			if trials[i].Fault = "kill"; trials[i].Engine == "" {
				trials[i].Engine = "e"
			}
		}
		sum, made := trials.of("e", "kill")
		if got := sum.String(); !made || got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestViolationsOfStrikesAreBesidesAndTheExitCode(t *testing.T) {
	all := cells{{Engine: "e", Fault: "kill", Found: map[string]int{"liveness": 1}}, {Engine: "e", Fault: "stop", Found: map[string]int{"exclusion": 1, "order": 2}},
		{Engine: "e", Fault: "kill", Found: map[string]int{"liveness": 3}}}
	if got := all.besides("e"); got != "liveness 4 (kill), order 2 (stop)" || all.code() != codeViolated {
		t.Errorf("%q, exit code %d", got, all.code())
	}
	if got := all.besides("f"); got != "nothing" || (cells{{}}).code() != 0 {
		t.Errorf("%q", got)
	}
}

// A run goes on where the one before it ended, and writes the table into a page.
func TestStrikesGoOnWhereTheyEnded(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Parallel()
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	if err := os.WriteFile(page, []byte("above\n"+begin+"old\n"+end+"below\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-strikes", "3", "-for", "60s", "-only", "^(filelock|queuelock)$", "-faults", "^(kill|failover)$", "-out", dir, "-ttl", "400ms", "-write", page}
	for run := range 2 {
		var out bytes.Buffer
		code, err := command(t.Context(), args, &out)
		if code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, &out)
		}
		all, err := readCells(filepath.Join(dir, "strikes.jsonl"))
		if err != nil || len(all) != 4 {
			t.Fatalf("run %d: %d trials, %v", run, len(all), err)
		}
		for _, engine := range []string{"filelock", "queuelock"} {
			if sum, _ := all.of(engine, "kill"); sum.Struck < 3 || sum.Leases < enoughLeases {
				t.Errorf("%+v", sum)
			}
			if sum, _ := all.of(engine, "failover"); sum.Absent == "" {
				t.Errorf("%+v", sum)
			}
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.HasPrefix(string(text), "above\n"+begin+"| engine |") || !strings.Contains(string(text), "| does not come |") || !strings.HasSuffix(string(text), end+"below\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// What an engine or a checker did that has been changed since does not count any more.
func TestChosenCellsAreMadeAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "strikes.jsonl")
	old := cells{{Engine: "filelock", Fault: "failover", Failed: "old"}, {Engine: "filelock", Fault: "kill", Struck: 1}, {Engine: "redlock", Fault: "failover", Struck: 2}}
	if err := old.save(file); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, err := command(t.Context(), []string{"-strikes", "1", "-again", "-only", "^filelock$", "-faults", "^failover$", "-out", dir}, &out); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, &out)
	}
	all, err := readCells(file)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	if a, b, c := all[0], all[1], all[2]; a.Struck != 1 || b.Struck != 2 || c.Fault != "failover" || c.Absent == "" {
		t.Errorf("%+v", all)
	}
}

// A trial is too short for many strikes of a slow fault. The cell then has more of them, each
// with another seed.
func TestACellHasTrialsUntilItHasItsStrikes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"-strikes", "5", "-for", "12s", "-only", "^filelock$", "-faults", "^(stop|failover)$", "-out", dir, "-ttl", "400ms"}
	var out bytes.Buffer
	if code, err := command(t.Context(), args, &out); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, &out)
	}
	all, err := readCells(filepath.Join(dir, "strikes.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[uint64]bool{}
	for _, x := range all {
		if x.Fault == "stop" {
			seeds[x.Seed] = true
		}
	}
	sum, _ := all.of("filelock", "stop")
	if n := all.trials("filelock", "stop"); sum.Struck < 5 || n < 2 || len(seeds) != int(n) || all.trials("filelock", "failover") != 1 {
		t.Errorf("%+v, %d trials with %d seeds: %s", sum, n, len(seeds), &out)
	}
}

// A result says in words what was seen, however soon its history is gone.
func TestAResultSaysWhatWasSeen(t *testing.T) {
	dir := t.TempDir()
	const overtaken = `{"at":1,"kind":"begin","run":{"ttl":400000000,"for":1000000000,"clients":2,"names":["n"],"declares":{"order":"fifo","fencing":"none","bound":1000000000}}}
{"at":2,"kind":"call","client":"c1","op":1,"what":"lock","name":"n","permits":1,"limit":1}
{"at":3,"kind":"queued","client":"c1","op":1}
{"at":4,"kind":"call","client":"c2","op":2,"what":"lock","name":"n","permits":1,"limit":1}
{"at":5,"kind":"answer","client":"c2","op":2,"result":"ok"}
{"at":6,"kind":"answer","client":"c1","op":1,"result":"ok"}
`
	if err := os.WriteFile(filepath.Join(dir, torture.History), []byte(overtaken), 0o644); err != nil {
		t.Fatal(err)
	}
	var x cell
	if err := x.judge(dir); err != nil || x.Found["order"] != 1 || len(x.Findings) != 1 || !strings.Contains(x.Findings[0], "order: ") || !strings.Contains(x.Findings[0], "but was granted first") {
		t.Errorf("%v %q, %v", x.Found, x.Findings, err)
	}
}
