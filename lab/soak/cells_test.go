package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
		"**1 of 40**":            {{Failed: "a client crashed", Leases: 300, Struck: 10, Doubled: 1}, {Leases: 300, Struck: 30}},
		"**2 of 50**":            {{Failed: "a client crashed", Leases: 900, Struck: 50, Doubled: 2}},
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

func TestViolationsOfStrikesAreBesides(t *testing.T) {
	all := cells{{Engine: "e", Fault: "kill", Found: map[string]int{"liveness": 1}}, {Engine: "e", Fault: "stop", Found: map[string]int{"exclusion": 1, "order": 2}},
		{Engine: "e", Fault: "kill", Found: map[string]int{"liveness": 3}, Failed: "a client crashed"}}
	if got := all.besides("e"); got != "liveness 4 (kill), order 2 (stop)" {
		t.Errorf("%q", got)
	}
	if got := all.besides("f"); got != "nothing" {
		t.Errorf("%q", got)
	}
}

// What the table says of every engine, and what this run made of the chosen ones, is the exit code.
func TestTheExitCodeOfStrikes(t *testing.T) {
	o := options{only: regexp.MustCompile("^(filelock|redlock)$"), faults: regexp.MustCompile("^kill$")}
	enough := func(engine string) cell { return cell{Engine: engine, Fault: "kill", Leases: 500, Struck: 20} }
	for name, c := range map[string]struct {
		all    cells
		failed bool // a trial of this run
		code   int
	}{
		"enough":                         {cells{enough("filelock"), enough("redlock")}, false, 0},
		"one does not come":              {cells{enough("filelock"), {Engine: "redlock", Fault: "kill", Absent: "no network"}}, false, 0},
		"one doubles as declared":        {cells{enough("filelock"), {Engine: "redlock", Fault: "kill", Doubled: 1, Declared: true, Struck: 9}}, false, 0},
		"one failed before":              {cells{{Engine: "filelock", Fault: "kill", Failed: "no server"}, enough("filelock"), enough("redlock")}, false, 0},
		"one failed now":                 {cells{{Engine: "filelock", Fault: "kill", Failed: "no server"}, enough("filelock"), enough("redlock")}, true, codeViolated},
		"a cell has none but failed":     {cells{{Engine: "filelock", Fault: "kill", Failed: "no server"}, enough("redlock")}, false, codeViolated},
		"a violation":                    {cells{enough("filelock"), enough("redlock"), {Engine: "zklock", Fault: "stop", Found: map[string]int{"order": 1}}}, false, codeViolated},
		"a violation in one that failed": {cells{{Engine: "filelock", Fault: "kill", Failed: "no server", Found: map[string]int{"order": 1}}, enough("filelock"), enough("redlock")}, false, codeViolated},
		"too few strikes":                {cells{enough("filelock"), {Engine: "redlock", Fault: "kill", Leases: 500, Struck: 19}}, false, codeVoid},
		"too few leases":                 {cells{enough("filelock"), {Engine: "redlock", Fault: "kill", Leases: 499, Struck: 20}}, false, codeVoid},
		"one was not made":               {cells{enough("filelock")}, false, codeVoid},
		"too few of what was not chosen": {cells{enough("filelock"), enough("redlock"), {Engine: "zklock", Fault: "kill", Leases: 1, Struck: 1}}, false, 0},
		"void, and one failed":           {cells{enough("filelock")}, true, codeViolated},
	} {
		if got := c.all.code(o, c.failed); got != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got, c.code)
		}
	}
}

// What a trial saw before it failed was seen, and a crash of a client is seen, too.
func TestATrialThatFailedIsJudged(t *testing.T) {
	const begun = `{"at":1,"kind":"begin","run":{"ttl":400000000,"for":1000000000,"clients":2,"names":["n"],"declares":{"order":"none","fencing":"none","bound":1000000000}}}
`
	const doubled = begun + `{"at":2,"kind":"call","client":"c1","op":1,"what":"lock","name":"n","permits":1,"limit":1}
{"at":3,"kind":"call","client":"c2","op":2,"what":"lock","name":"n","permits":1,"limit":1}
{"at":4,"kind":"answer","client":"c1","op":1,"result":"ok"}
{"at":5,"kind":"answer","client":"c2","op":2,"result":"ok"}
{"at":6,"kind":"mark","client":"c1","op":1}
{"at":7,"kind":"mark","client":"c2","op":2}
{"at":8,"kind":"mark","client":"c1","op":1}
{"at":9,"kind":"mark","client":"c2","op":2}
`
	crashed, leftOut := errors.New("client c2 ended by itself"), []string{"stop was left out: no server"}
	for name, c := range map[string]struct {
		history string
		r       *torture.Result
		err     error
		failed  string // a part of it
		found   string
		kept    bool
	}{
		"a client crashed, and two held":    {doubled, &torture.Result{}, crashed, "ended by itself", "map[exclusion:1 failed:1]", true},
		"a client crashed":                  {begun, &torture.Result{}, crashed, "ended by itself", "map[failed:1]", true},
		"the servers are in pieces":         {doubled, &torture.Result{Notes: leftOut, Status: torture.Status{Strikes: 1}}, nil, "no server", "map[exclusion:1]", true},
		"they are, and so clients ended":    {begun, &torture.Result{Notes: leftOut, Status: torture.Status{Strikes: 1}}, crashed, "ended by itself; stop was left out", "map[]", true},
		"no fault came, and a client ended": {begun, &torture.Result{Notes: leftOut}, crashed, "ended by itself", "map[failed:1]", true},
		"two held":                          {doubled, &torture.Result{}, nil, "", "map[exclusion:1]", true},
		"nothing was seen":                  {begun, &torture.Result{}, nil, "", "map[]", false},
		"it did not begin":                  {begun, nil, errors.New("no such engine"), "no such engine", "map[]", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, torture.History)
			if err := os.WriteFile(file, []byte(c.history), 0o644); err != nil {
				t.Fatal(err)
			}
			x := cell{Fault: "stop"}
			x.ended(dir, c.r, c.err)
			if x.Failed == "" != (c.failed == "") || !strings.Contains(x.Failed, c.failed) || fmt.Sprint(x.Found) != c.found || x.Absent != "" {
				t.Errorf("failed %q, absent %q, found %v", x.Failed, x.Absent, x.Found)
			}
			if _, err := os.Stat(file); (err == nil) != c.kept {
				t.Errorf("the history is kept: %v", err == nil)
			}
		})
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
		if code != codeVoid || err != nil { // 3 strikes show nothing
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
	if code, err := command(t.Context(), args, &out); code != codeVoid || err != nil {
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
	x := cell{Found: map[string]int{}}
	if err := x.judge(dir); err != nil || x.Found["order"] != 1 || len(x.Findings) != 1 || !strings.Contains(x.Findings[0], "order: ") || !strings.Contains(x.Findings[0], "but was granted first") {
		t.Errorf("%v %q, %v", x.Found, x.Findings, err)
	}
}
