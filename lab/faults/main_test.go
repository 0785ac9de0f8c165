package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// tested is a module with one function and its tests, in a repository of its
// own, and the faults given by the names of their files.
func tested(t *testing.T, faults map[string]string) string {
	t.Helper()
	servers.Need(t, "git")
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":           "module example.com/sum\n\ngo 1.26.0\n",
		"sum.go":           "package sum\n\n// Sum is a plus b.\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n",
		".gitignore":       "/ignored\n/.deps\n",
		"ignored":          "",
		".deps/bin/server": "",
		"sum_test.go": `package sum

import (
	"os"
	"testing"
)

func TestSum(t *testing.T) {
	if Sum(2, 3) != 5 {
		t.Fatal("wrong")
	}
}

func TestNothing(t *testing.T) { Sum(2, 3) }

func TestOnAServer(t *testing.T) {
	if _, err := os.Stat(".deps/bin/server"); err != nil {
		t.Skip(err)
	}
	TestSum(t)
}

func TestOnAnother(t *testing.T) { t.Skip("it is not built") }

func TestRedAlready(t *testing.T) { t.Fatal("always") }

func TestHangs(t *testing.T) {
	for Sum(2, 3) != 5 {
	}
}
`,
	}
	for name, text := range faults {
		files[filepath.Join("faults", name+".patch")] = text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := exec.CommandContext(t.Context(), "git", "init", "--quiet")
	git.Dir = dir
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func patch(test, from, to string) string {
	return "# fault: it is wrong\n# package: example.com/sum\n# test: " + test + "\n" +
		"diff --git a/sum.go b/sum.go\n--- a/sum.go\n+++ b/sum.go\n@@ -3,4 +3,4 @@\n" +
		" // Sum is a plus b.\n func Sum(a, b int) int {\n-\t" + from + "\n+\t" + to + "\n }\n"
}

func TestEachFaultIsJudgedByItself(t *testing.T) {
	const from = "return a + b"
	dir := tested(t, map[string]string{
		"a-noticed":         patch("TestSum", from, "return a - b"),
		"b-unnoticed":       patch("TestNothing", from, "return a - b"),
		"c-does-not-apply":  patch("TestSum", "return b + a", "return a - b"),
		"d-no-code":         patch("TestSum", from, "return a +"),
		"e-red-already":     patch("TestRedAlready", from, "return a - b"),
		"f-no-such-test":    patch("TestOfAnotherName", from, "return a - b"),
		"g-hangs":           patch("TestHangs", from, "return a - b"),
		"h-noticed-as-well": patch("TestSum", from, "return a * b"),
		"i-on-a-server":     patch("TestOnAServer", from, "return a - b"),
		"j-skipped":         patch("TestOnAnother", from, "return a - b"),
	})
	var out strings.Builder
	err := run(t.Context(), dir, options{faults: "faults", bound: 5 * time.Second}, &out)
	t.Logf("%v\n%s", err, &out)
	if err == nil {
		t.Error("faults that nobody noticed are no failure")
	}
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if verdict, rest, found := strings.Cut(line, "s  "); found {
			name, why, _ := strings.Cut(rest, ":")
			rows[name] = verdict + why
		}
	}
	for name, want := range map[string]string{
		"a-noticed":         "(TestSum)",
		"b-unnoticed":       "is green",
		"c-does-not-apply":  "no longer applies",
		"d-no-code":         "does it compile?",
		"e-red-already":     "red without it",
		"f-no-such-test":    "no test of example.com/sum that matches TestOfAnotherName was run",
		"g-hangs":           "(example.com/sum)",
		"h-noticed-as-well": "(TestSum)",
		"i-on-a-server":     "(TestOnAServer)",
		"j-skipped":         "TestOnAnother was skipped",
	} {
		noticed := strings.HasPrefix(want, "(")
		if !strings.Contains(rows[name], want) || strings.HasPrefix(rows[name], "noticed") != noticed {
			t.Errorf("%s: %q, want %q", name, rows[name], want)
		}
	}
	if !strings.Contains(out.String(), "4 of 10 faults were noticed") {
		t.Error("the sum is wrong")
	}
}

func TestAllNoticedIsNoFailureAndASampleIsTheSameForASeed(t *testing.T) {
	faults := map[string]string{}
	for _, name := range strings.Split("abcdefgh", "") {
		faults[name] = patch("TestSum", "return a + b", "return a - b")
	}
	dir := tested(t, faults)
	names := func(o options) string {
		var out strings.Builder
		o.faults, o.bound = "faults", time.Minute
		if err := run(t.Context(), dir, o, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		var found []string
		for line := range strings.Lines(out.String()) {
			if _, rest, ok := strings.Cut(line, "s  "); ok {
				found = append(found, rest[:1])
			}
		}
		return strings.Join(found, "")
	}
	first := names(options{sample: 3, seed: 7})
	if again := names(options{sample: 3, seed: 7}); len(first) != 3 || again != first {
		t.Errorf("%q, then %q", first, again)
	}
	if all := names(options{only: "[a-c]"}); all != "abc" {
		t.Errorf("-run [a-c]: %q", all)
	}
}

func TestWhatCannotBePlantedIsAnErrorBeforeAnythingRuns(t *testing.T) {
	good := patch("TestSum", "return a + b", "return a - b")
	for want, text := range map[string]string{
		"without a line \"# package":      strings.Replace(good, "# package: example.com/sum\n", "", 1),
		"\"extra\" is not one of":         "# extra: x\n" + good,
		"\"fault\" is not one of":         "# fault: twice\n" + good,
		"no diff follows":                 "# fault: x\n# package: y\n# test: z\n",
		"test: error parsing regexp":      patch("(", "return a + b", "return a - b"),
		"there is nothing to plant":       "",
		"-run: error parsing regexp: mis": "",
	} {
		faults, o := map[string]string{"x": text}, options{faults: "faults", bound: time.Minute}
		switch {
		case text == "" && strings.HasPrefix(want, "-run"):
			o.only, faults["x"] = "(", good
		case text == "":
			delete(faults, "x")
		}
		var out strings.Builder
		if err := run(t.Context(), tested(t, faults), o, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
		if out.Len() > 0 {
			t.Errorf("%q: it printed %q", want, &out)
		}
	}
}

// The faults of this tree can be planted now: whether they are noticed takes
// minutes, and is for make faults.
func TestTheFaultsOfThisTreeApply(t *testing.T) {
	root := filepath.Join("..", "..")
	faults, err := readFaults("patches")
	if err != nil || len(faults) == 0 {
		t.Fatalf("%d faults, %v", len(faults), err)
	}
	copied := tree{dir: filepath.Join(t.TempDir(), "leasehold")}
	if err := copied.copyFrom(context.Background(), root); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if said, err := copied.apply(t.Context(), f, "--check"); err != nil {
			t.Errorf("%s: %v\n%s", f.name, err, said)
		}
	}
}
