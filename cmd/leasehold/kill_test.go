//go:build linux

package main

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func command3(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader("given\n")
	return cmd
}

func shell(script string, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", script}, args...)...)
}

// family is a command that will not go: it, its children and grandchildren,
// some of them in a session of their own, ignore what can be ignored. Each
// says that it has begun.
const family = `
trap '' TERM INT HUP; : >> "$FAMILY"
(echo >> "$FAMILY"; sh -c 'echo >> "$FAMILY"; exec sleep 60' & sleep 60) &
setsid sh -c 'echo >> "$FAMILY"; sh -c "echo >> \"\$FAMILY\"; exec sleep 60" & sleep 60' &
while [ $(wc -l < "$FAMILY") -lt 4 ]; do sleep 0.01; done
: > "$FAMILY.ready"
sleep 60; sleep 60`

// startFamily returns once all of it runs.
func (p *place) startFamily(name string, flags ...string) (x *process, members func() []int) {
	p.Helper()
	mark := p.file("family-" + name)
	args := append([]string{"run", name}, flags...)
	cmd := exec.Command(program, append(args, "--", "sh", "-c", family)...)
	cmd.Env = append(p.env, "FAMILY="+mark)
	x = p.startCmd(cmd)
	p.exists(mark + ".ready")
	members = func() (pids []int) {
		for _, field := range strings.Fields(p.familyOf(exec.Command("sh", "-c", whoLives), mark)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				p.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
	if n := len(members()); n < 5 {
		p.Fatalf("the family has %d members", n)
	}
	p.Cleanup(func() {
		for _, pid := range members() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return x, members
}

// whoLives prints the pids of the family, which has its mark in its
// environment; but not those of leasehold, nor of who has ended.
const whoLives = `grep -lzsx "FAMILY=$MARK" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do
	[ "$(readlink /proc/$pid/exe)" = "$LEASEHOLD" ] || echo $pid
done`

func (p *place) familyOf(cmd *exec.Cmd, mark string) string {
	p.Helper()
	cmd.Env = append(p.env, "MARK="+mark, "LEASEHOLD="+program)
	x := p.startCmd(cmd)
	if code := x.wait(p); code != 0 {
		p.Fatalf("exit code %d: %s", code, x.err.String())
	}
	return x.out.String()
}

// freeOnlyWhenGone waits for name and reports whoever still lived then.
func (p *place) freeOnlyWhenGone(name string) {
	p.Helper()
	cmd := exec.Command(program, "run", name, "--wait", "12s", "--", "sh", "-c", whoLives)
	if out := p.familyOf(cmd, p.file("family-"+name)); out != "" {
		p.Errorf("%s was held again while these still ran: %s", name, out)
	}
}

func TestKilledLeaseholdEndsEverything(t *testing.T) {
	for _, who := range []string{"front", "keeper"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			x, _ := p.startFamily("killed")
			keeper := p.held("killed").Owner.PID
			if who == "keeper" {
				syscall.Kill(keeper, syscall.SIGKILL)
			} else {
				x.Process.Kill()
			}
			p.freeOnlyWhenGone("killed")
			if code := x.wait(t); who == "keeper" {
				if code != 76 {
					t.Errorf("exit code %d", code)
				}
				one(t, x.err.String(), "killed was lost", "has ended (killed)")
			}
		})
	}
}

// With both killed nobody is left to end the grandchildren; then the name must
// not be free while they run, as long as the TTL.
func TestBothKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, members := p.startFamily("both")
	keeper := p.held("both").Owner.PID
	syscall.Kill(x.Process.Pid, syscall.SIGSTOP) // so that it cannot act in between
	syscall.Kill(keeper, syscall.SIGKILL)
	x.Process.Kill()
	until(t, "both are gone", func() bool { return syscall.Kill(keeper, 0) != nil })
	if len(members()) == 0 {
		t.Fatal("no grandchild is left: this test shows nothing")
	}
	if code, _, _ := p.leasehold("run", "both", "--wait", "300ms", "--", "true"); code != 75 {
		t.Errorf("held again while grandchildren ran: exit code %d", code)
	}
	for _, pid := range members() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	p.freeOnlyWhenGone("both")
}

// A keeper that is stopped cannot end the command. The front must, when trust
// ends.
func TestStoppedKeeper(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, _ := p.startFamily("stopped", "--ttl", "4s", "--lost-exit-code", "99")
	keeper := p.held("stopped").Owner.PID
	start := time.Now()
	syscall.Kill(keeper, syscall.SIGSTOP)
	p.freeOnlyWhenGone("stopped")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if code := x.wait(t); code != 99 {
		t.Errorf("exit code %d", code)
	}
	one(t, x.err.String(), "stopped was lost", "did not renew")
}

// A front that is stopped changes nothing: the lease is kept, and lost leases
// are acted upon.
func TestStoppedFront(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, members := p.startFamily("front", "--ttl", "1s")
	ticket := p.held("front").Ticket
	x.Process.Signal(syscall.SIGSTOP)
	time.Sleep(1500 * time.Millisecond)
	if c := p.held("front"); c.Ticket != ticket || len(members()) < 5 {
		t.Fatalf("lost: %+v", c)
	}
	p.must("evict", "front", "--ticket", strconv.FormatUint(ticket, 10), "--now", "--yes")
	until(t, "the command has ended", func() bool { return len(members()) == 0 })
	x.Process.Signal(syscall.SIGCONT)
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d", code)
	}
}

func TestEvicted(t *testing.T) {
	t.Run("now", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		x, members := p.startFamily("e")
		ticket := p.held("e").Ticket
		p.must("evict", "e", "--ticket", strconv.FormatUint(ticket, 10), "--now", "--yes")
		if code := x.wait(t); code != 76 {
			t.Errorf("exit code %d", code)
		}
		one(t, x.err.String(), "e was lost: somebody evicted it")
		if left := members(); len(left) > 0 {
			t.Errorf("these still run: %v", left)
		}
	})
	t.Run("politely", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		done := p.file("done")
		x := p.start("run", "e", "--", "sh", "-c", "trap 'sleep 0.3; echo saved > "+done+"; exit 3' TERM; while :; do sleep 0.05; done")
		ticket := p.held("e").Ticket
		p.must("evict", "e", "--ticket", strconv.FormatUint(ticket, 10), "--yes")
		// It may finish, and nobody else holds the name before it has.
		if out := p.must("run", "e", "--", "cat", done); out != "saved\n" {
			t.Errorf("held again when %q was saved", out)
		}
		if code := x.wait(t); code != 76 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.start("run", "e", "--", "sleep", "60")
		p.held("e")
		x := p.start("run", "e", "--", "echo", "ran")
		until(t, "it waits", func() bool { return len(p.line("e").Claims) == 2 })
		p.must("evict", "e", "--ticket", strconv.FormatUint(p.line("e").Claims[1].Ticket, 10), "--yes")
		if code := x.wait(t); code != 75 || x.out.Len() > 0 {
			t.Errorf("exit code %d, printed %q", code, x.out.String())
		}
		one(t, x.err.String(), "evicted")
	})
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	term := p.file("term")
	start := time.Now()
	x := p.start("run", "m", "--max-hold", "3s", "--", "sh", "-c", "trap 'echo told > "+term+"' TERM; while :; do sleep 0.02; done")
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(start); took < 3*time.Second {
		t.Errorf("killed after %v", took)
	}
	if p.content(term) != "told" {
		t.Error("not told before")
	}
	// The shell may have said something of its sleep first.
	said := x.err.String()
	one(t, said[strings.LastIndex(said, "leasehold:"):], "m was held for --max-hold")
	if l := p.line("m"); len(l.Claims) > 0 {
		t.Errorf("still in line: %+v", l.Claims)
	}
}
