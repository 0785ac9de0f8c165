package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// modules are the go.mod files of this tree: each one's text, by its path from the root.
func modules(t *testing.T) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "*go.mod")
	list.Dir = filepath.Join("..", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range strings.Fields(string(out)) {
		all[name] = read(t, name)
	}
	if len(all) < 20 {
		t.Fatalf("only %d modules: this shows nothing", len(all))
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The line is what makes an older Go refuse a module, so one that asks for less would promise
// a release of Go that nothing is tested with.
func TestEveryModuleAsksForTheOlderOfTheTwoReleasesOfGo(t *testing.T) {
	page := regexp.MustCompile(`Today these are Go 1\.(\d+) and Go 1\.(\d+)\.`).FindStringSubmatch(read(t, "docs/compatibility.md"))
	if page == nil {
		t.Fatal("docs/compatibility.md does not say which releases of Go are supported")
	}
	for name, text := range modules(t) {
		if want := "\ngo 1." + page[1] + ".0\n"; !strings.Contains(text, want) || strings.Contains(text, "\ntoolchain ") {
			t.Errorf("%s does not say %q alone", name, strings.TrimSpace(want))
		}
	}
	if want := "\nNEWEST    ?= go1." + page[2] + "."; !strings.Contains(read(t, "Makefile"), want) {
		t.Errorf("the Makefile does not say %q: make newest tests another release than the page promises", strings.TrimSpace(want))
	}
}

// But for the server that tests run.
func TestEveryModuleIsOnThePage(t *testing.T) {
	page, line := read(t, "docs/dependencies.txt"), regexp.MustCompile(`(?m)^module (\S+)$`)
	for name, text := range modules(t) {
		path := line.FindStringSubmatch(text)[1]
		if has := strings.Contains(page, "\n\n"+path+"\n"); has == (name == "lab/tools/etcd/go.mod") {
			t.Errorf("docs/dependencies.txt has %s: %v", path, has)
		}
	}
}

func TestAProgramThatIsRunIsATool(t *testing.T) {
	var f modFile
	f.Tool = append(f.Tool, struct{ Path string }{"example.com/a/cmd/x"}, struct{ Path string }{"example.com/b"})
	for path, want := range map[string]bool{"example.com/a": true, "example.com/b": true, "example.com/a/cm": false, "example.com/c": false} {
		if f.isTool(path) != want {
			t.Errorf("%s is a tool: %v", path, !want)
		}
	}
}
