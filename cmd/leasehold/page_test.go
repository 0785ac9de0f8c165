//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/command-line.md has a row for each command and for each exit code.
func TestThePageHasEveryCommandAndEveryExitCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := func(header string) string {
		_, table, ok := strings.Cut(string(text), "\n"+header+"\n")
		if !ok {
			t.Fatalf("there is no table %q", header)
		}
		var first strings.Builder // the first cells
		for line := range strings.Lines(table) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				break
			}
			first.WriteString(cells[1] + "\n")
		}
		return first.String()
	}

	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z-]+)").FindAllStringSubmatch(rows("| command | what it does |"), -1) {
		listed[m[1]] = true
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" && !listed[c.Name()] {
			t.Errorf("the table of commands lacks %s", c.Name())
		}
		delete(listed, c.Name())
	}
	for name := range listed {
		t.Errorf("there is no command %s", name)
	}
	codes := rows("| code | meaning |")
	for _, code := range []int{codeFailed, codeUsage, codeUnavailable, codeConflict, codeLost, codeVoid, codeNotRunnable, codeNotFound} {
		if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, code)).MatchString(codes) {
			t.Errorf("the table of exit codes lacks %d", code)
		}
	}
}
