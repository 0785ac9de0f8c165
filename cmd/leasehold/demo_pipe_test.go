//go:build linux

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"leasehold/lab/servers"
)

// A reader that goes, as head does, ends a demo, which leaves no folder and no key.
func TestADemoWhoseReaderGoesLeavesNothing(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, nil)
	for _, args := range [][]string{
		{"demo", "setnx", "--server", "redis://" + s.Addr}, {"demo", "setnx"}, {"demo", "--for", "1m"},
	} {
		p := newPlace(t)
		tmp := t.TempDir()
		cmd := exec.Command(program, args...)
		cmd.Env = append(p.env, "TMPDIR="+tmp)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if text := lines.Text(); strings.Contains(text, "A has the lock") || strings.Contains(text, "processes draw") {
				break
			}
		}
		out.Close()
		_ = cmd.Wait() // its code says it
		if code := cmd.ProcessState.ExitCode(); code != codeSignal+int(syscall.SIGPIPE) {
			t.Errorf("%q: exit code %d", args, code)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%q: what is left: %v, %v", args, left, err)
		}
	}
	if n, err := s.Do("DBSIZE"); err != nil || n != int64(0) {
		t.Errorf("what is left in Redis: %v, %v", n, err)
	}
}
