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
