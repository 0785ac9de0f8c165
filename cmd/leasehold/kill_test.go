//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
// environment; but not those of leasehold, nor of who has ended, be it since the
// environment was read: then there is no exe any more.
const whoLives = `grep -lzsx "FAMILY=$MARK" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do
	exe=$(readlink /proc/$pid/exe) && [ "$exe" != "$LEASEHOLD" ] && echo $pid || :
done`

func (p *place) familyOf(cmd *exec.Cmd, mark string) string {
	p.Helper()
	return p.said(p.startFamilyOf(cmd, mark))
}

func (p *place) startFamilyOf(cmd *exec.Cmd, mark string) *process {
	p.Helper()
	cmd.Env = append(p.env, "MARK="+mark, "LEASEHOLD="+program)
	return p.startCmd(cmd)
}

// said waits for success and returns what was printed.
func (p *place) said(x *process) string {
	p.Helper()
	if code := x.wait(p); code != 0 {
		p.Fatalf("%q: exit code %d: %s", x.Args, code, x.err.String())
	}
	return x.out.String()
}

// leaseholder is a process of a run, with what ps calls it.
type leaseholder struct {
	proc
	name string
}

// leaseholds are the processes of leasehold that keep a family.
func (p *place) leaseholds(name string) (ours []leaseholder) {
	p.Helper()
	mark := "FAMILY=" + p.file("family-"+name) + "\x00"
	dir, err := os.ReadDir("/proc")
	if err != nil {
		p.Fatal(err)
	}
	for _, entry := range dir {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + entry.Name() + "/environ")
		exe, _ := os.Readlink("/proc/" + entry.Name() + "/exe")
		pr, lives := look(pid)
		if exe != program || !lives || !strings.Contains(string(env)+"\x00", mark) {
			continue
		}
		line, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		argv0, _, _ := strings.Cut(string(line), "\x00")
		ours = append(ours, leaseholder{pr, filepath.Base(argv0)})
	}
	return ours
}

func (p *place) reaper(name string) int {
	p.Helper()
	for _, pr := range p.leaseholds(name) {
		if pr.name == reaperName {
			return pr.pid
		}
	}
	p.Fatal("there is no reaper")
	return 0
}

// nextInQueue waits behind the family's claim. The result waits until it holds
// the name, and reports whoever of the family lives then.
func (p *place) nextInQueue(name string) (check func()) {
	p.Helper()
	left := p.nextSees(name)
	return func() {
		p.Helper()
		if out := left(); out != "" {
			p.Errorf("%s was held again while these still ran: %s", name, out)
		}
	}
}

// nextSees is nextInQueue, and the result says who lives.
func (p *place) nextSees(name string) (left func() string) {
	p.Helper()
	cmd := exec.Command(program, "run", name, "--wait", "25s", "--", "sh", "-c", whoLives)
	x := p.startFamilyOf(cmd, p.file("family-"+name))
	until(p, "it waits", func() bool { return len(p.line(name).Claims) == 2 })
	return func() string {
		p.Helper()
		return p.said(x)
	}
}

// trusted waits until a lease has its TTL. At first it has less, and less time is for killing.
func (p *place) trusted(name string, ttl time.Duration) {
	p.Helper()
	until(p, "it has its full TTL", func() bool { return p.held(name).TTL > 0.8*ttl.Seconds() })
}

// unlessItStood plays a round in which a family must be gone in time. Half a second is set aside
// for killing it: if somebody was left, and the machine has stood still around that time,
// the round shows nothing and is played once more.
func unlessItStood(t *testing.T, round func() (left string)) {
	t.Helper()
	stood := standstills(t)
	left := round()
	if left != "" && stood() {
		t.Logf("the machine stood still while these still ran: %s", left)
		left = round()
	}
	if left != "" {
		t.Errorf("the name was held again while these still ran: %s", left)
	}
}

// standstills watches whether this process runs. The result reports whether it did not for a
// while, a moment ago.
func standstills(t *testing.T) (stood func() bool) {
	const long, recent = 150 * time.Millisecond, 10 * time.Second // who looks for the family is slow, too
	var mu sync.Mutex
	last, late := time.Now(), time.Time{}
	look := func() {
		now := time.Now()
		if now.Sub(last) > long {
			late = now
		}
		last = now
	}
	tick := time.NewTicker(10 * time.Millisecond)
	over := make(chan struct{})
	t.Cleanup(func() { tick.Stop(); close(over) })
	go func() {
		for {
			select {
			case <-tick.C:
				mu.Lock()
				look()
				mu.Unlock()
			case <-over:
				return
			}
		}
	}()
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		look()
		return time.Since(late) < recent
	}
}

func TestKilledLeaseholdEndsEverything(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"front", "keeper", "reaper"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			x, _ := p.startFamily("killed")
			keeper := p.held("killed").Owner.PID
			check := p.nextInQueue("killed")
			switch who {
			case "front":
				x.Process.Kill()
			case "keeper":
				syscall.Kill(keeper, syscall.SIGKILL)
			case "reaper":
				syscall.Kill(p.reaper("killed"), syscall.SIGKILL)
			}
			check()
			code := x.wait(t)
			if who != "front" && code != 76 {
				t.Errorf("exit code %d", code)
			}
			switch who {
			case "keeper":
				one(t, x.err.String(), "killed was lost", "has ended (killed)")
			case "reaper":
				one(t, x.err.String(), "watched over the command was killed")
			}
		})
	}
}

// Whatever is killed or stopped together, what the command started is gone when
// the next one holds.
func TestAllThatIsCalledLeaseholdAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sig  syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}} {
		for _, engine := range []string{"dir", "redis"} {
			if testing.Short() && (engine == "dir") != (c.sig == syscall.SIGKILL) {
				continue // each signal and each engine once
			}
			t.Run(c.name+" on "+engine, func(t *testing.T) {
				t.Parallel()
				unlessItStood(t, func() string {
					p := newPlace(t)
					if engine == "redis" {
						p, _ = redisPlace(t)
					}
					_, members := p.startFamily("all", "--ttl", "10s") // from there on the last half second is for killing
					p.trusted("all", 10*time.Second)
					left := p.nextSees("all")
					var hit []proc
					for _, pr := range p.leaseholds("all") {
						if pr.name != reaperName {
							hit = append(hit, pr.proc)
							syscall.Kill(pr.pid, syscall.SIGSTOP) // all of them at once
						}
					}
					if len(hit) != 2 {
						t.Fatalf("%d processes are called leasehold", len(hit))
					}
					if len(members()) < 5 {
						t.Fatal("no family is left: this test shows nothing")
					}
					for _, pr := range hit {
						syscall.Kill(pr.pid, c.sig)
					}
					lived := left()
					for _, pr := range hit {
						syscall.Kill(pr.pid, syscall.SIGCONT)
					}
					return lived
				})
			})
		}
	}
}

// With all three killed nobody is left to end the grandchildren; then the name
// must not be free while they run, as long as the TTL.
func TestAllKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, members := p.startFamily("all")
	check := p.nextInQueue("all")
	ours := p.leaseholds("all")
	if len(ours) != 3 {
		t.Fatalf("a run is %d processes", len(ours))
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // so that none can act in between
		for _, pr := range ours {
			syscall.Kill(pr.pid, sig)
		}
	}
	until(t, "all are gone", func() bool { return len(p.leaseholds("all")) == 0 })
	if len(members()) == 0 {
		t.Fatal("no grandchild is left: this test shows nothing")
	}
	time.Sleep(300 * time.Millisecond)
	if n := len(p.line("all").Claims); n != 2 {
		t.Errorf("%d in the queue while grandchildren ran", n)
	}
	for _, pid := range members() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	check()
}

// A keeper that is stopped cannot end the command. The launcher must, when trust
// ends.
func TestStoppedKeeper(t *testing.T) {
	t.Parallel()
	unlessItStood(t, func() string {
		p := newPlace(t)
		x, _ := p.startFamily("stopped", "--ttl", "10s", "--lost-exit-code", "99")
		keeper := p.held("stopped").Owner.PID
		p.trusted("stopped", 10*time.Second)
		left := p.nextSees("stopped")
		start := time.Now()
		syscall.Kill(keeper, syscall.SIGSTOP)
		lived := left()
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		if code := x.wait(t); code != 99 {
			t.Errorf("exit code %d", code)
		}
		one(t, x.err.String(), "stopped was lost", "did not renew")
		return lived
	})
}

// A reaper that is stopped is in nobody's way.
func TestStoppedReaper(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, members := p.startFamily("reaper")
	syscall.Kill(p.reaper("reaper"), syscall.SIGSTOP)
	p.must("revoke", "reaper", "--ticket", strconv.FormatUint(p.held("reaper").Ticket, 10), "--now", "--yes")
	if code := x.wait(t); code != 76 || len(members()) > 0 {
		t.Errorf("exit code %d, %d still run", code, len(members()))
	}
}

// A launcher that is stopped changes nothing: the lease is kept, and lost leases
// are acted upon.
func TestStoppedFront(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, members := p.startFamily("front", "--ttl", "6s")
	ticket := p.held("front").Ticket
	x.Process.Signal(syscall.SIGSTOP)
	time.Sleep(6500 * time.Millisecond)
	if c := p.held("front"); c.Ticket != ticket || len(members()) < 5 {
		t.Fatalf("lost: %+v", c)
	}
	p.must("revoke", "front", "--ticket", strconv.FormatUint(ticket, 10), "--now", "--yes")
	until(t, "the command has ended", func() bool { return len(members()) == 0 })
	x.Process.Signal(syscall.SIGCONT)
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d", code)
	}
}

func TestRevoked(t *testing.T) {
	t.Parallel()
	t.Run("now", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		x, members := p.startFamily("e")
		ticket := p.held("e").Ticket
		p.must("revoke", "e", "--ticket", strconv.FormatUint(ticket, 10), "--now", "--yes")
		if code := x.wait(t); code != 76 {
			t.Errorf("exit code %d", code)
		}
		one(t, x.err.String(), "e was lost: somebody revoked it")
		if left := members(); len(left) > 0 {
			t.Errorf("these still run: %v", left)
		}
	})
	t.Run("politely", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		done, ready := p.file("done"), p.file("ready")
		x := p.start("run", "e", "--", "sh", "-c", "trap 'sleep 0.3; echo saved > "+done+"; exit 3' TERM; : > "+ready+"; while :; do sleep 0.05; done")
		p.exists(ready)
		ticket := p.held("e").Ticket
		p.must("revoke", "e", "--ticket", strconv.FormatUint(ticket, 10), "--yes")
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
		p.must("revoke", "e", "--ticket", strconv.FormatUint(p.line("e").Claims[1].Ticket, 10), "--yes")
		if code := x.wait(t); code != 75 || x.out.String() != "" {
			t.Errorf("exit code %d, printed %q", code, x.out.String())
		}
		one(t, x.err.String(), "revoked")
	})
}

// Somebody who stopped reading our words changes nothing else.
func TestNobodyReadsTheWords(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, nobody := range []string{"2>&-", "2>/dev/full", "2>&1 >/dev/null | true"} {
		t.Run(nobody, func(t *testing.T) {
			code := p.file("code")
			os.Remove(code)
			p.startCmd(shell(`{ "$0" run words -- sleep 60; echo $? > `+code+`; } `+nobody, program))
			p.must("revoke", "words", "--ticket", strconv.FormatUint(p.held("words").Ticket, 10), "--now", "--yes")
			if got := p.content(code); got != "76" {
				t.Errorf("exit code %s", got)
			}
		})
	}
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	term := p.file("term")
	start := time.Now()
	const most = 15 * time.Second // the TERM comes a third of that before
	x := p.start("run", "m", "--max-hold", most.String(), "--", "sh", "-c", "trap 'echo told > "+term+"' TERM; while :; do sleep 0.02; done")
	if code := x.wait(t); code != 76 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(start); took < most {
		t.Errorf("killed after %v", took)
	}
	if p.content(term) != "told" {
		t.Error("not told before")
	}
	// The shell may have said something of its sleep first.
	said := x.err.String()
	one(t, said[strings.LastIndex(said, "leasehold:"):], "m was held for --max-hold")
	if l := p.line("m"); len(l.Claims) > 0 {
		t.Errorf("still in the queue: %+v", l.Claims)
	}
}
