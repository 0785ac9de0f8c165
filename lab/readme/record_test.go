package main

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

var (
	defect   = regexp.MustCompile(`^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (?:not yet: seen by )?([0-9a-f]{7,40}) \| ([^|]+) \|$`)
	shown    = regexp.MustCompile("^`([^`]+)`(?: in \\[[^]]+\\]\\(\\.\\./([^)]*)\\))?$")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// defects is what docs/track-record.md says of one defect.
type defects struct {
	line, section, found, commit string
	shown                        []string
}

// record reads docs/track-record.md: its defects, and the counts that it gives of kinds
// and of how they were found.
func record(t *testing.T) (all []defects, counts map[string]int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "track-record.md"))
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int{}
	count := regexp.MustCompile(`^\| (?:\[([^]]+)\]\([^)]*\)|([a-z ]+)) \| (\d+) \|$`)
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		heading, isHeading := strings.CutPrefix(line, "## ")
		switch m := defect.FindStringSubmatch(line); {
		case isHeading:
			section = heading
		case m != nil:
			all = append(all, defects{line, section, m[3], m[4], strings.Split(m[5], "; ")})
		case strings.Count(line, "|") > 4 && !strings.HasPrefix(line, "| where ") && !strings.HasPrefix(line, "|---"):
			t.Errorf("this line of docs/track-record.md is no defect: %s", line)
		}
		if m := count.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[3])
			if err != nil {
				t.Fatal(err)
			}
			counts[m[1]+m[2]] = n
		}
	}
	if len(all) < 100 {
		t.Fatalf("docs/track-record.md has %d defects", len(all))
	}
	return all, counts
}

func TestTheRecordCountsItsDefects(t *testing.T) {
	all, counts := record(t)
	want := map[string]int{"all": len(all)}
	for _, d := range all {
		want[d.section]++
		want[d.found]++
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if counts[name] != want[name] {
			t.Errorf("docs/track-record.md says %d of %q: there are %d", counts[name], name, want[name])
		}
	}
	for name, n := range counts {
		if want[name] == 0 {
			t.Errorf("docs/track-record.md says %d of %q: there is none", n, name)
		}
	}
}

// A name that nobody can run shows nothing: tests are renamed, and faults removed.
func TestWhatShowsADefectIsThere(t *testing.T) {
	all, _ := record(t)
	in := map[string]map[string]bool{} // the tests by folder
	for _, d := range all {
		for _, s := range d.shown {
			if strings.HasPrefix(s, "none") {
				continue
			}
			m := shown.FindStringSubmatch(s)
			if m == nil {
				t.Errorf("%q is neither a fault nor a test in a folder: %s", s, d.line)
				continue
			}
			if !strings.Contains(s, " in [") {
				if _, err := os.Stat(filepath.Join(root, "lab", "faults", "patches", m[1]+".patch")); err != nil {
					t.Errorf("there is no fault %s: %s", m[1], d.line)
				}
				continue
			}
			if in[m[2]] == nil {
				in[m[2]] = tests(t, m[2])
			}
			if name, _, _ := strings.Cut(m[1], "/"); !in[m[2]][name] {
				t.Errorf("there is no %s in %q: %s", name, m[2], d.line)
			}
		}
	}
}

// tests are the names of the tests of a folder.
func tests(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := fs.Glob(os.DirFS(filepath.Join(root, folder)), "*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(filepath.Join(root, folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			names[m[1]] = true
		}
	}
	return names
}

// Each line names a commit of this history, and the newest of a kind is first.
func TestTheCommitsOfTheRecordAreOfThisHistory(t *testing.T) {
	if published(t) {
		t.Skip("SKIPPED: this tree is published, with a history of its own: the commits are of the tree that it was made from")
	}
	servers.Need(t, "git")
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil {
		servers.Missing(t, "the history: this is no clone")
	}
	list, err := git("rev-list", "--timestamp", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int64{} // when, by the seven first digits
	for line := range strings.Lines(list) {
		at, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		if made[hash[:7]], err = strconv.ParseInt(at, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	all, _ := record(t)
	for i, d := range all {
		at, known := made[d.commit[:7]]
		switch {
		case !known && shallow == "true": // a clone without the older part of the history
			t.Logf("not compared: %s", d.commit)
		case !known:
			t.Errorf("this history has no commit %s: %s", d.commit, d.line)
		case i > 0 && all[i-1].section == d.section && at > made[all[i-1].commit[:7]]:
			t.Errorf("a newer defect stands below an older one: %s", d.line)
		}
	}
}
