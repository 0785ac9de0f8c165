package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A template that is executed calls methods by their names, so the linker keeps every method of every library:
// 14 MB. Without pages the program has none of its own.
func TestWithoutPagesNoTemplateIsLinked(t *testing.T) {
	for _, folder := range []string{".", "../../service", "../../torture/report"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		for _, f := range files { // so that the go command runs this again when one has changed
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
	}
	for tags, want := range map[string]bool{"grpcnotrace": true, "grpcnotrace,no_ui": false} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, ".").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if has := slices.Contains(strings.Fields(string(out)), "html/template"); has != want {
			t.Errorf("with the tags %s the program has templates: %v", tags, has)
		}
	}
}
