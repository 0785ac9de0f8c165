//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A database that is away is said and is no failure; what is found, and what goes wrong, is one.
func TestVulnerabilitiesFailAndAMissingDatabaseDoesNot(t *testing.T) {
	script := filepath.Join("..", "..", ".ci", "vulnerabilities")
	if _, err := os.ReadFile(script); err != nil { // so that the go command runs this again when it changes
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		says string
		code string
		ok   bool
		want string
	}{
		"nothing found":  {"No vulnerabilities found.", "0", true, ""},
		"found":          {"Vulnerability #1: GO-2026-1", "3", false, "GO-2026-1"},
		"no database":    {"govulncheck: fetching vulnerabilities: Get https://x: no such host", "1", true, "MISSING"},
		"does not build": {"govulncheck: loading packages: undefined: x", "1", false, "undefined"},
	} {
		fake := filepath.Join(t.TempDir(), "govulncheck")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\necho '"+c.says+"' >&2\nexit "+c.code+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", script, t.TempDir())
		cmd.Env = append(os.Environ(), "GOVULNCHECK="+fake)
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}
