package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func readme(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := blocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The go.mod and the program that the README shows to users of the library are
// what they copy: they must build, and run.
func TestAnotherModuleBuildsWhatTheREADMEShows(t *testing.T) {
	var mod, program string
	for _, b := range readme(t) {
		switch {
		case strings.HasPrefix(b.text, "module "):
			mod = b.text
		case strings.HasPrefix(b.text, "package main"):
			program = b.text
		}
	}
	if mod == "" || program == "" {
		t.Fatal("the README shows no go.mod (a block that begins with module) or no program (package main)")
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// The block says ../leasehold, a clone beside the user's module. The
	// checkout may have any name.
	if strings.Count(mod, "=> ../leasehold") == 0 {
		t.Fatalf("the go.mod does not replace by ../leasehold:\n%s", mod)
	}
	mod = strings.ReplaceAll(mod, "=> ../leasehold", "=> "+filepath.ToSlash(here))

	dir := t.TempDir()
	var sums []byte // what go mod tidy would find, without the network
	for _, module := range []string{".", "engines"} {
		sum, err := os.ReadFile(filepath.Join(root, module, "go.sum"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		sums = append(sums, sum...)
	}
	for name, text := range map[string]string{"go.mod": mod, "main.go": program, "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "LEASEHOLD_ENGINE=dir://"+filepath.ToSlash(t.TempDir()))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "token") {
		t.Error("the program prints no token")
	}
}

// CI runs the tests through the README: without this line it would run none.
func TestTheREADMERunsTheTests(t *testing.T) {
	run, err := shell(readme(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range run {
		if b.skip == "" && strings.Contains(b.text, "make deps test") {
			return
		}
	}
	t.Fatal("no block of the README that is run has `make deps test`")
}

func TestBlocks(t *testing.T) {
	all, err := blocks("a\n```sh\none\ntwo\n```\n<!-- prints: x+ -->\n<!-- not run: why so -->\n\n```sh\nthree\n```\n```go\ncode\n```\n")
	if err != nil || len(all) != 3 {
		t.Fatalf("%d blocks, %v", len(all), err)
	}
	if all[0].text != "one\ntwo\n" || all[0].line != 2 || all[0].print != nil || all[0].skip != "" {
		t.Errorf("first: %+v", all[0])
	}
	if all[1].text != "three\n" || !all[1].print.MatchString("axx") || all[1].skip != "why so" {
		t.Errorf("second: %+v", all[1])
	}
	if run, err := shell(all); err != nil || len(run) != 2 {
		t.Errorf("%d to run, %v", len(run), err)
	}
	for page, want := range map[string]string{
		"```sh\nx\n":                      "never ends",
		"<!-- prints: ( -->\n":            "line 1",
		"<!-- not run: -->\n```sh\n```\n": "says nothing",
		"```console\n$ rm\n```\n":         "write ```sh",
		"text\n```bash\nmake test\n```\n": "write ```sh",
	} {
		all, err := blocks(page)
		if err == nil {
			_, err = shell(all)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", page, err, want)
		}
	}
}

func TestABlockThatFailsOrPrintsSomethingElseIsAnError(t *testing.T) {
	env := os.Environ()
	for page, want := range map[string]string{
		"```sh\necho fine\n```":                                  "",
		"```sh\nfalse\necho not reached\n```":                    "exit status 1",
		"```sh\necho $UNSET_VARIABLE\n```":                       "exit status",
		"<!-- prints: ^held [0-9]+ -->\n```sh\necho held 7\n```": "",
		"<!-- prints: ^held [0-9]+ -->\n```sh\necho held x\n```": "does not match",
		"<!-- not run: it would fail -->\n```sh\nfalse\n```":     "",
	} {
		all, err := blocks(page)
		if err != nil {
			t.Fatal(err)
		}
		err = all[0].run("page", t.TempDir(), env)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", page, err, want)
		}
	}
}
