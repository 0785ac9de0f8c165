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
	const found, away = "Vulnerability #1: GO-2026-1", "govulncheck: fetching vulnerabilities: Get https://x: no such host"
	for what, c := range map[string]struct {
		says []string // of each folder
		code []string
		ok   bool
		want []string
	}{
		"nothing found":                     {[]string{"No vulnerabilities found."}, []string{"0"}, true, nil},
		"found":                             {[]string{found}, []string{"3"}, false, []string{"GO-2026-1"}},
		"no database":                       {[]string{away}, []string{"1"}, true, []string{"MISSING"}},
		"does not build":                    {[]string{"govulncheck: loading packages: undefined: x"}, []string{"1"}, false, []string{"undefined"}},
		"found, and then no database":       {[]string{found, away}, []string{"3", "1"}, false, []string{"GO-2026-1", "MISSING"}},
		"nothing found, then no database":   {[]string{"", away}, []string{"0", "1"}, true, []string{"MISSING"}},
		"nothing found, and then a finding": {[]string{"", found}, []string{"0", "3"}, false, []string{"GO-2026-1"}},
	} {
		fake := filepath.Join(t.TempDir(), "govulncheck")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\ncat says >&2\nexit $(cat code)\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		args := []string{script}
		for i, says := range c.says {
			dir := t.TempDir()
			for name, text := range map[string]string{"says": says + "\n", "code": c.code[i]} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			args = append(args, dir)
		}
		cmd := exec.CommandContext(t.Context(), "bash", args...)
		cmd.Env = append(os.Environ(), "GOVULNCHECK="+fake)
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: nothing says %q:\n%s", what, want, out)
			}
		}
	}
}

// Without a folder every module is examined, with the two that make and check a release.
func TestVulnerabilitiesAreSoughtInEveryModule(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "govulncheck")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"in $PWD: $*.\"\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join("..", "..", ".ci", "vulnerabilities")
	cmd := exec.CommandContext(t.Context(), "bash", script)
	cmd.Env = append(os.Environ(), "GOVULNCHECK="+fake)
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{"/engine/redis: ./....", "/lab/dist: ./....", "/lab/tools: tool."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
}
