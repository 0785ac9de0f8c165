//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestAcquireRenewRelease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	out := p.must("acquire", "d", "--ttl", "20s", "--label", "step")
	handle := strings.TrimSpace(out)
	if out != handle+"\n" || strings.ContainsAny(handle, " \n") {
		t.Fatalf("not a handle alone: %q", out)
	}
	first := p.line("d").Claims[0]
	if first.State != "held" || first.Owner.Label != "step" {
		t.Errorf("%+v", first)
	}
	if code, _, _ := p.answered("run", "d", "--nonblock", "--", "true"); code != 75 {
		t.Errorf("held by another: exit code %d", code)
	}
	time.Sleep(3 * time.Second) // longer than to show it may take after the renewal
	before := p.line("d").Claims[0].TTL
	if out := p.must("renew", handle); out != "" {
		t.Errorf("renew printed %q", out)
	}
	if after := p.line("d").Claims[0]; after.Ticket != first.Ticket || after.TTL <= before {
		t.Errorf("renewed from %vs to %vs, ticket %d to %d", before, after.TTL, first.Ticket, after.Ticket)
	}
	p.must("release", handle)
	if l := p.line("d"); len(l.Claims) > 0 {
		t.Errorf("still held: %+v", l.Claims)
	}
	for _, cmd := range []string{"renew", "release"} {
		code, _, stderr := p.leasehold(cmd, handle)
		if code != 76 {
			t.Errorf("%s of what was released: exit code %d", cmd, code)
		}
		one(t, stderr, "lost")
		if strings.Contains(stderr, handle) {
			t.Errorf("the handle is told: %q", stderr)
		}
	}
}

func TestAcquireModes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.must("acquire", "s", "--shared")
	p.must("acquire", "s", "--shared")
	p.must("acquire", "n", "--permits", "2", "--of", "3")
	if n := len(p.line("s").Claims); n != 2 {
		t.Errorf("%d shared", n)
	}
	for _, args := range [][]string{{"s", "--nonblock"}, {"n", "--permits", "2", "--of", "3", "--wait", "2s"}} {
		code, out, stderr := p.answered(append([]string{"acquire"}, args...)...)
		if code != 75 || out != "" {
			t.Errorf("%q: exit code %d, printed %q", args, code, out)
		}
		one(t, stderr, "is held by")
	}
}

func TestHandleFromElsewhere(t *testing.T) {
	p := newPlace(t)
	handle := p.must("acquire", "d")
	cmd := exec.Command(program, "renew", "-")
	cmd.Stdin = strings.NewReader(handle)
	if x := p.startCmd(cmd); x.wait(t) != 0 {
		t.Errorf("from standard input: %s", x.err.String())
	}
	cmd = exec.Command(program, "release")
	cmd.Env = append(p.env, "LEASEHOLD_HANDLE="+handle)
	if x := p.startCmd(cmd); x.wait(t) != 0 {
		t.Errorf("from the environment: %s", x.err.String())
	}
	for _, bad := range [][]string{{"renew"}, {"renew", "x"}, {"release", "leasehold1.e30"}} {
		code, _, stderr := p.leasehold(bad...)
		if code != 64 {
			t.Errorf("%q: exit code %d", bad, code)
		}
		one(t, stderr, "handle")
	}
}

// A handle that nobody got would keep the name until its TTL.
func TestHandleThatCannotBePrinted(t *testing.T) {
	p := newPlace(t)
	x := p.startCmd(shell(`exec "$0" acquire d > /dev/full`, program))
	if code := x.wait(t); code != 1 {
		t.Errorf("exit code %d", code)
	}
	one(t, x.err.String(), "print the handle")
	if l := p.line("d"); len(l.Claims) > 0 {
		t.Errorf("held by nobody: %+v", l.Claims)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := exec.Command(program, "acquire", "d")
	cmd.Env, cmd.Stdout = p.env, w
	err = cmd.Run()
	if w.Close(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("into a pipe that nobody reads: %v", err)
	}
	if l := p.line("d"); len(l.Claims) > 0 {
		t.Errorf("held by nobody: %+v", l.Claims)
	}
}

func TestHandleForNobody(t *testing.T) {
	p := newPlace(t)
	for _, where := range []string{">&-", "> /dev/null", ">&- 0<&-"} {
		x := p.startCmd(shell(`exec "$0" acquire d `+where, program))
		if code := x.wait(t); code != 64 {
			t.Errorf("%s: exit code %d", where, code)
		}
		one(t, x.err.String(), "nobody would have the handle")
		if l := p.line("d"); len(l.Claims) > 0 {
			t.Errorf("%s: held by nobody: %+v", where, l.Claims)
		}
	}
}

func TestRevokedHandle(t *testing.T) {
	p := newPlace(t)
	handle := strings.TrimSpace(p.must("acquire", "d"))
	p.must("revoke", "d", "--ticket", fmt.Sprint(p.held("d").Ticket), "--now", "--yes")
	if code, _, _ := p.leasehold("renew", handle); code != 76 {
		t.Errorf("exit code %d", code)
	}
}
