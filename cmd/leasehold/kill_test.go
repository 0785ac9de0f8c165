package main

import (
	"errors"
	"os"
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
// one of them in a session of its own, ignore everything that can be ignored.
// Each writes its pid.
const family = `
trap '' TERM INT HUP
echo $$ >> "$PIDS"
(echo $(exec sh -c 'echo $PPID') >> "$PIDS"; (sh -c 'echo $$ >> "$PIDS"; exec sleep 60') & sleep 60) &
setsid sh -c 'echo $$ >> "$PIDS"; sh -c "echo \$\$ >> \"\$PIDS\"; exec sleep 60" & sleep 60' &
while [ $(wc -l < "$PIDS") -lt 5 ]; do sleep 0.01; done
: > "$PIDS.ready"
sleep 60; sleep 60`

// startFamily returns once all of it runs.
func (p *place) startFamily(name string, flags ...string) (x *process, pids []int) {
	p.Helper()
	path := p.file("pids-" + name)
	p.env = append(p.env, "PIDS="+path)
	args := append([]string{"run", name}, flags...)
	x = p.start(append(args, "--", "sh", "-c", family)...)
	p.exists(path + ".ready")
	for _, text := range strings.Fields(p.content(path)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			p.Fatal(err)
		}
		pids = append(pids, pid)
	}
	p.Cleanup(func() {
		for _, pid := range living(pids) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return x, pids
}

// living are those that have not ended; a zombie has.
func living(pids []int) (alive []int) {
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) && syscall.Kill(pid, 0) == nil {
				alive = append(alive, pid)
			}
			continue
		}
		if _, rest, ok := cutLast(string(text), ") "); ok && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
			alive = append(alive, pid)
		}
	}
	return alive
}

// freeOnlyWhenGone waits for name and reports whoever still lived then.
func (p *place) freeOnlyWhenGone(name string, pids []int) {
	p.Helper()
	check := `for p in ` + list(pids) + `; do if [ -e /proc/$p/stat ] && ! grep -q ') [ZX] ' /proc/$p/stat; then echo $p; fi; done`
	if out := p.must("run", name, "--wait", "12s", "--", "sh", "-c", check); out != "" {
		p.Errorf("%s was held again while these still ran: %s", name, out)
	}
	if left := living(pids); len(left) > 0 {
		p.Errorf("these still run: %v", left)
	}
}

func list(ns []int) string {
	var s []string
	for _, n := range ns {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, " ")
}

func TestKilledLeaseholdEndsEverything(t *testing.T) {
	for _, who := range []string{"front", "keeper"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			x, pids := p.startFamily("killed")
			keeper := p.held("killed").Owner.PID
			if who == "keeper" {
				syscall.Kill(keeper, syscall.SIGKILL)
			} else {
				x.Process.Kill()
			}
			p.freeOnlyWhenGone("killed", append(pids, keeper))
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
	p := newPlace(t)
	x, pids := p.startFamily("both")
	keeper := p.held("both").Owner.PID
	syscall.Kill(x.Process.Pid, syscall.SIGSTOP) // so that it cannot act in between
	syscall.Kill(keeper, syscall.SIGKILL)
	x.Process.Kill()
	until(t, "the kernel has killed the command", func() bool { return len(living(pids[:1])) == 0 })
	if len(living(pids)) == 0 {
		t.Fatal("no grandchild is left: this test shows nothing")
	}
	if code, _, _ := p.leasehold("run", "both", "--wait", "300ms", "--", "true"); code != 75 {
		t.Errorf("held again while grandchildren ran: exit code %d", code)
	}
	for _, pid := range living(pids) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	p.freeOnlyWhenGone("both", pids)
}

// A keeper that is stopped cannot end the command. The front must, when trust
// ends.
func TestStoppedKeeper(t *testing.T) {
	p := newPlace(t)
	x, pids := p.startFamily("stopped", "--ttl", "1s", "--lost-exit-code", "99")
	keeper := p.held("stopped").Owner.PID
	start := time.Now()
	syscall.Kill(keeper, syscall.SIGSTOP)
	p.freeOnlyWhenGone("stopped", append(pids, keeper))
	if took := time.Since(start); took > 5*time.Second {
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
	p := newPlace(t)
	x, pids := p.startFamily("front", "--ttl", "300ms")
	ticket := p.held("front").Ticket
	x.Process.Signal(syscall.SIGSTOP)
	time.Sleep(900 * time.Millisecond)
	if c := p.held("front"); c.Ticket != ticket || len(living(pids)) != len(pids) {
		t.Fatalf("lost: %+v", c)
	}
	p.must("evict", "front", "--ticket", strconv.FormatUint(ticket, 10), "--now", "--yes")
	until(t, "the command has ended", func() bool { return len(living(pids)) == 0 })
	x.Process.Signal(syscall.SIGCONT)
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d", code)
	}
}

func TestEvicted(t *testing.T) {
	t.Run("now", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		x, pids := p.startFamily("e")
		ticket := p.held("e").Ticket
		p.must("evict", "e", "--ticket", strconv.FormatUint(ticket, 10), "--now", "--yes")
		if code := x.wait(t); code != 76 {
			t.Errorf("exit code %d", code)
		}
		one(t, x.err.String(), "e was lost: somebody evicted it")
		if left := living(pids); len(left) > 0 {
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
	p := newPlace(t)
	term := p.file("term")
	start := time.Now()
	x := p.start("run", "m", "--max-hold", "900ms", "--", "sh", "-c", "trap 'echo told > "+term+"' TERM; while :; do sleep 0.02; done")
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(start); took < 900*time.Millisecond {
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
