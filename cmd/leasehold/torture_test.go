//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"leasehold/torture/history"
)

// historyOf reads what a trial left behind.
func historyOf(t *testing.T, dir string) []history.Event {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := history.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// A trial on a server: every kind of fault has an effect, no claim is left, and the verdict
// is the same without the server.
func TestTortureOfAServer(t *testing.T) {
	t.Parallel()
	p, s := redisPlace(t)
	var dir, out string
	var code int
	// A busy machine has fewer faults in a trial.
	bits := map[string]int{}
	enough := func() bool { return bits["wire"] > 0 && len(bits) >= 2 }
	for seed := 3; seed < 7 && !enough(); seed++ {
		dir = p.file(fmt.Sprint("out", seed))
		var text string
		code, out, text = p.leasehold("torture", "--for", "20s", "--ttl", "400ms", "--clients", "3", "--names", "4", "--seed", fmt.Sprint(seed),
			"--nemesis", "kill,wire,stop", "--out", dir)
		t.Log(out, text)
		if code != 0 && code != codeVoid {
			kept, err := os.MkdirTemp("", "torture-") // the test's own folder is removed
			if err == nil {
				err = os.CopyFS(kept, os.DirFS(dir))
			}
			t.Fatalf("exit code %d; the history is in %s (%v)", code, kept, err)
		}
		named := map[int]string{}
		for _, e := range historyOf(t, dir) {
			switch e.Kind {
			case history.Strike:
				named[e.Fault] = e.Named
			case history.Bit:
				bits[named[e.Fault]]++
			case history.Left:
				if e.Value != 0 {
					t.Errorf("left: %+v", e)
				}
			}
		}
	}
	if !enough() {
		t.Errorf("faults with an effect: %v", bits)
	}
	if left := p.must("ls", "torture-"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	report, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(report), "redis://"+s.Addr) {
		t.Errorf("the report: %v", err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	again, verdict, _ := p.leasehold("torture", "check", dir)
	// How many calls a search of a second leaves out is the machine's business.
	leftOut := regexp.MustCompile(`; \d+ calls? (was|were) left out, with more possible orders than are followed`)
	same := strings.HasSuffix(leftOut.ReplaceAllString(out, ""), leftOut.ReplaceAllString(verdict, ""))
	if again != code || verdict == "" || !same {
		t.Errorf("exit code %d, and then %d; the verdict was\n%s\nand then\n%s", code, again, out, verdict)
	}
}

// An interrupt ends a trial with the report of what was seen.
func TestTortureInterrupted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := p.file("out")
	x := p.start("torture", "--ttl", "300ms", "--clients", "2", "--nemesis", "none", "--out", dir, "--json")
	until(t, "it reports its status", func() bool { return strings.Contains(x.out.String(), `"leases"`) })
	if err := x.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := x.wait(t); code != codeVoid {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
	lines := strings.Split(strings.TrimSpace(x.out.String()), "\n")
	var last struct {
		Dir    string
		Result struct{ Cut bool }
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Dir != dir || !last.Result.Cut {
		t.Errorf("%v: %s", err, lines[len(lines)-1])
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
	if left := p.must("ls", "torture-"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestTortureRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, args := range [][]string{
		{"--nemesis", "flood"}, {"--nemesis", "none,kill"}, {"--heal", "true"}, {"--breaks", "hearts"}, {"--for", "1s"}, {"--clients", "0"}, {"--clients", "-1"},
		{"--ttl", "1ms"}, {"--engine", "mem:"}, {"--require", "fencing"}, {"now"}, {"check"}, {"check", p.file("absent")}, {"check", "--engine", "mem:", "x"},
		{"--engine", "redis://u:hunter2@127.0.0.1:1"},
	} {
		code, out, text := p.leasehold(append([]string{"torture", "--out", p.file("out")}, args...)...)
		if args[0] == "check" {
			code, out, text = p.leasehold(append([]string{"torture"}, args...)...)
		}
		if code != codeUsage || out != "" || !strings.HasPrefix(text, "leasehold: ") || strings.Contains(text, "hunter2") {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, text)
		}
	}
}
