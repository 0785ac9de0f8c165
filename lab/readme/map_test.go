package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the folders that the map in CONTRIBUTING.md names. In it two spaces
// go one folder down, and text begins after two spaces.
func rooms(t *testing.T) []string {
	t.Helper()
	var tree string
	for _, b := range page(t, "CONTRIBUTING.md") {
		if strings.HasPrefix(b.text, "leasehold/ ") {
			tree = b.text
		}
	}
	var found, above []string
	for line := range strings.Lines(tree) {
		rest := strings.TrimLeft(line, " ")
		depth := (len(line) - len(rest)) / 2
		names, _, _ := strings.Cut(rest, "  ")
		if names = strings.TrimSpace(names); !strings.HasSuffix(names, "/") || depth > len(above) {
			continue // goes on with the text of the line above
		}
		for name := range strings.FieldsSeq(names) { // "a/ b/" are two
			above = append(above[:depth], strings.TrimSuffix(name, "/"))
			found = append(found, filepath.Join(above[min(1, depth):]...))
		}
	}
	if len(found) < 10 {
		t.Fatalf("CONTRIBUTING.md has no map that begins with leasehold/: %q", found)
	}
	return found
}

func TestEveryRoomOfTheMapIsThere(t *testing.T) {
	for _, room := range rooms(t)[1:] {
		if info, err := os.Stat(filepath.Join(root, room)); err != nil || !info.IsDir() {
			t.Errorf("CONTRIBUTING.md names %s, which is not there", room)
		}
	}
}

// Of rooms within rooms the map names what a newcomer looks for; these three it
// names wholly.
func TestTheMapHasEveryRoom(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	known := rooms(t)
	missing := map[string]bool{}
	for name := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSpace(name), "/")
		depth := 1
		if parts[0] == "engine" || parts[0] == "internal" {
			depth = 2
		}
		if len(parts) > depth {
			missing[strings.Join(parts[:depth], "/")] = true
		}
	}
	for room := range missing {
		if !slices.Contains(known, filepath.FromSlash(room)) && room != "cmd" {
			t.Errorf("CONTRIBUTING.md does not name %s", room)
		}
	}
}
