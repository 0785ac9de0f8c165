package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	_ "leasehold" // built by the tests below: a change of it must not find them cached
)

const root = "../.."

func readme(t *testing.T) []block { return page(t, "README.md") }

func page(t *testing.T, name string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	all, err := blocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// published is whether lab/publish wrote this tree: then its modules have a public path.
func published(t *testing.T) bool {
	t.Helper()
	return modfile.ModulePath([]byte(content(t, "go.mod"))) != "leasehold"
}

// The workspace and the program that the README shows to users of the library are what
// they copy: they must build, with one engine and with all of them.
func TestAnotherModuleBuildsWhatTheREADMEShows(t *testing.T) {
	if published(t) {
		t.Skip("SKIPPED: this tree is published, and its README says go get: before it was published, TestAStrangerGetsIt did what it says")
	}
	var workspace, program string
	for _, b := range readme(t) {
		switch {
		case strings.Contains(b.text, "go work init"):
			workspace = b.text
		case strings.HasPrefix(b.text, "package main"):
			program = b.text
		}
	}
	if workspace == "" || program == "" {
		t.Fatal("the README shows no workspace (go work init) or no program (package main)")
	}
	// The block says ../leasehold, a clone beside the user's module. The
	// checkout may have any name.
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(workspace, " ../leasehold") < 2 {
		t.Fatalf("the workspace does not use ../leasehold:\n%s", workspace)
	}
	workspace = strings.ReplaceAll(workspace, " ../leasehold", " "+filepath.ToSlash(here))
	for _, c := range []struct{ name, workspace, program string }{
		{"one engine", workspace, program},
		{"all engines", strings.ReplaceAll(workspace, "/engine/redis", "/engines"), strings.NewReplacer(
			`"leasehold/engine/redis"`, `"leasehold/engines"`,
			`redis.Open(ctx, "redis://127.0.0.1:6379")`, `engines.Open(ctx, "")`).Replace(program)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			env := append(os.Environ(), "GOWORK=", "XDG_STATE_HOME="+t.TempDir())
			do := func(name string, args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir, cmd.Env = filepath.Join(dir, "shop"), env
				if name == "sh" {
					cmd.Dir = dir
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return string(out)
			}
			do("sh", "-euc", c.workspace)
			if err := os.WriteFile(filepath.Join(dir, "shop", "main.go"), []byte(c.program), 0o600); err != nil {
				t.Fatal(err)
			}
			if do("go", "build", "-o", "shop", "."); c.name == "one engine" {
				return // it needs a server
			}
			if out := do("./shop"); !strings.Contains(out, "held with token") {
				t.Errorf("got %q, want a token", out)
			}
		})
	}
}

// Fragments of Go in the pages are bodies of functions that have ctx, eng,
// locks, db and work.
func TestFragmentsInThePagesCompile(t *testing.T) {
	const before = `package tour

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/fence/fencehttp"
	"leasehold/fence/fencesql"
	"leasehold/migrate"
)

var oldLock migrate.Lock

var (
	_ = errors.Is
	_ = fmt.Sprint
	_ = time.Second
)

func work(context.Context, leasehold.Token) error { return nil }
`
	program := before
	for _, name := range []string{"README.md", "README.zh-CN.md", "docs/tour.md", "docs/engines.md", "docs/fencing.md", "docs/from-your-lock.md", "docs/from-your-lock.zh-CN.md", "docs/migrating.md"} {
		n := 0
		for _, b := range page(t, name) {
			if b.lang != "go" || strings.HasPrefix(b.text, "package ") {
				continue
			}
			n++
			program += fmt.Sprintf("\nfunc _(ctx context.Context, eng engine.Engine, locks, plain, queues *leasehold.Client, db *sql.DB) error {\n//line %s:%d\n%sreturn nil\n}\n",
				name, b.line+1, b.text)
		}
		if n == 0 {
			t.Errorf("%s has no fragment of Go", name)
		}
	}
	// As a package of this module that is only an overlay: nothing need be
	// replaced, and nothing is written into the checkout.
	dir := t.TempDir()
	file := filepath.Join(dir, "tour.go")
	where, err := filepath.Abs(filepath.Join("tour", "tour.go"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {where: file}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{file: program, filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "./tour")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
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
