//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// leader is what "leader" prints; nothing if nobody leads.
func (p *place) leader(name string) string {
	p.Helper()
	_, out, _ := p.leasehold("leader", name)
	return strings.TrimSuffix(out, "\n")
}

func (p *place) revoke(name string) {
	p.Helper()
	p.must("revoke", name, "--ticket", strconv.FormatUint(p.held(name).Ticket, 10), "--yes")
}

// candidate runs a command that writes a line when it begins, and runs until it is ended.
func (p *place) candidate(name, value string, flags ...string) *process {
	p.Helper()
	args := append([]string{"elect", name, "--value", value}, flags...)
	return p.start(append(args, "--", "sh", "-c", "echo "+value+" $LEASEHOLD_TOKEN; while :; do sleep 0.05; done")...)
}

func terms(x *process) int { return strings.Count(x.out.String(), "\n") }

func TestARevokedLeaderStandsAgainBehindTheOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one, two := p.candidate("a", "one:80"), (*process)(nil)
	until(t, "one leads", func() bool { return p.leader("a") == "one:80" && terms(one) == 1 })
	two = p.candidate("a", "two:80")
	until(t, "two waits", func() bool { return len(p.line("a").Claims) == 2 })
	if out := two.out.String(); out != "" {
		t.Errorf("both lead: %q", out)
	}
	p.revoke("a")
	until(t, "two leads", func() bool { return p.leader("a") == "two:80" && terms(two) == 1 })
	until(t, "one stands again", func() bool { return len(p.line("a").Claims) == 2 })

	two.Process.Signal(syscall.SIGTERM)
	if code := two.wait(t); code != 143 {
		t.Errorf("exit code %d: %s", code, two.err.String())
	}
	until(t, "one leads again", func() bool { return p.leader("a") == "one:80" && terms(one) == 2 })
	var first, second uint64
	if _, err := fmt.Sscanf(one.out.String(), "one:80 %d\none:80 %d\n", &first, &second); err != nil || second <= first {
		t.Errorf("tokens %d, then %d: %v", first, second, err)
	}
	one.Process.Signal(syscall.SIGTERM)
	if code := one.wait(t); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if code, out, says := p.leasehold("leader", "a"); code != 1 || out != "" || !strings.Contains(says, "nobody leads") {
		t.Errorf("nobody leads: exit code %d, printed %q, said %q", code, out, says)
	}
}

func TestACommandThatEndsGivesTheLeadBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if code, out, says := p.leasehold("elect", "a", "--", "sh", "-c", "echo $LEASEHOLD_NAME; exit 7"); code != 7 || out != "a\n" || says != "" {
		t.Errorf("exit code %d, printed %q, said %q", code, out, says)
	}
	// 76 is what "run" says of a loss; of a command it means nothing.
	if code, _, says := p.leasehold("elect", "a", "--", "sh", "-c", "exit 76"); code != 76 || says != "" {
		t.Errorf("exit code %d, said %q", code, says)
	}
	if l := p.line("a"); len(l.Claims) != 0 {
		t.Errorf("left behind: %+v", l.Claims)
	}
}

// A term leaves nothing behind: no process, no descriptor.
func TestACandidateStandsAgainAfterItsKeeperWasKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.candidate("a", "x")
	open := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	until(t, "it leads", func() bool { return terms(x) == 1 })
	until(t, "it has the file that keeps the claim alive", func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", x.Process.Pid))
		return slices.ContainsFunc(fds, func(fd string) bool {
			to, _ := os.Readlink(fd) // it may be closed by now
			return strings.HasPrefix(to, p.dir+"/clients/")
		})
	})
	before := open()
	for n := 2; n < 4; n++ {
		syscall.Kill(p.held("a").Owner.PID, syscall.SIGKILL)
		until(t, "it leads again", func() bool { return terms(x) == n })
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, %d were in the first term", after, before)
	}
	if says := x.err.String(); strings.Count(says, "a was lost: the process that kept it has ended") != 2 || strings.Count(says, "stands for election again") != 2 {
		t.Errorf("said %q", says)
	}
	x.Process.Signal(syscall.SIGTERM)
	if code := x.wait(t); code != 143 {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
}

// What a shell had started when it became leasehold, and what leasehold has adopted since, as
// PID 1 of a container does, is no part of a term: a candidate that lost does not wait for it.
func TestACandidateStandsAgainBesideStrangers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	before, adopted, leads := p.file("before"), p.file("adopted"), p.file("leads")
	x := p.startCmd(shell(`exec 3>&1 > /dev/null
sleep 60 2>&1 3>&- & echo $! > "$1"
(until [ -e "$3" ]; do sleep 0.05; done; sleep 60 & echo $! > "$2") 2>&1 3>&- &
exec "$0" elect a -- sh -c 'echo term; while :; do sleep 0.05; done' >&3 3>&-`, program, before, adopted, leads))
	var strangers []int
	stranger := func(file string) {
		pid, err := strconv.Atoi(p.content(file))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if p, lives := look(pid); lives {
				p.kill()
			}
		})
		until(t, "it is a child of leasehold", func() bool { p, lives := look(pid); return lives && p.parent == x.Process.Pid })
		strangers = append(strangers, pid)
	}
	stranger(before)
	until(t, "it leads", func() bool { return terms(x) == 1 })
	if err := os.WriteFile(leads, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stranger(adopted)

	p.must("revoke", "a", "--ticket", strconv.FormatUint(p.held("a").Ticket, 10), "--now", "--yes")
	until(t, "it leads again after a loss", func() bool { return terms(x) == 2 })
	syscall.Kill(p.held("a").Owner.PID, syscall.SIGKILL)
	until(t, "it leads again after its keeper was killed", func() bool { return terms(x) == 3 })
	for i, pid := range strangers {
		if _, lives := look(pid); !lives {
			t.Errorf("stranger %d of %d was killed", i+1, len(strangers))
		}
	}
	x.Process.Signal(syscall.SIGTERM)
	if code := x.wait(t); code != 143 {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
}

// The end of a server ends the command. The candidate leads again when the server is back.
func TestACandidateOutlivesItsServer(t *testing.T) {
	t.Parallel()
	p, s := redisPlace(t)
	x := p.candidate("a", "x", "--ttl", "2s")
	until(t, "it leads", func() bool { return terms(x) == 1 })
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	// The second time because the engine could not be opened.
	until(t, "it has tried in vain", func() bool { return strings.Count(x.err.String(), "stands for election again") >= 2 })
	led := terms(x) // a machine that stood still may have ended a term before
	if err := s.Restart(false); err != nil {
		t.Fatal(err)
	}
	until(t, "it leads again", func() bool { return terms(x) > led })
}

func TestNobodyStandsAgainWhoWasAskedToEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	t.Run("between two terms", func(t *testing.T) {
		t.Parallel()
		x := p.candidate("between", "x")
		until(t, "it leads", func() bool { return terms(x) == 1 })
		p.revoke("between")
		until(t, "it has lost", func() bool { return strings.Contains(x.err.String(), "stands for election again") })
		x.Process.Signal(syscall.SIGTERM)
		if code := x.wait(t); code != 143 {
			t.Errorf("exit code %d: %s", code, x.err.String())
		}
	})
	t.Run("while it led", func(t *testing.T) {
		t.Parallel()
		ready, heard := p.file("ready"), p.file("heard")
		x := p.start("elect", "led", "--", "sh", "-c", fmt.Sprintf("trap ': > %s' TERM; : > %s; while :; do sleep 0.05; done", heard, ready))
		p.exists(ready)
		x.Process.Signal(syscall.SIGTERM)
		p.exists(heard)
		p.must("revoke", "led", "--ticket", strconv.FormatUint(p.held("led").Ticket, 10), "--now", "--yes")
		if code := x.wait(t); code != 76 || strings.Contains(x.err.String(), "again") {
			t.Errorf("exit code %d: %s", code, x.err.String())
		}
	})
}

func TestElectRefusesWhatCannotLead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"elect", "a"}, 64, "command missing"},
		{[]string{"elect", "", "--", "true"}, 64, "it is empty"},
		{[]string{"elect", "a", "--value", strings.Repeat("x", 101), "--", "true"}, 64, "--value has 101 bytes"},
		{[]string{"elect", "a", "--value", "a\tb", "--", "true"}, 64, "not printable"},
		{[]string{"elect", "a", "--ttl", "1ms", "--", "true"}, 64, "outside"},
		{[]string{"elect", "a", "--engine", "redis://127.0.0.1:1", "--", "true"}, 69, ""},
		{[]string{"elect", "a", "--engine", "redis://127.0.0.1:1?layout=plain", "--", "true"}, 69, ""},
		{[]string{"elect", "a", "--", "no-such-command"}, 127, "no-such-command"},
		{[]string{"leader", strings.Repeat("x", 5000)}, 64, "5000 bytes"},
		{[]string{"leader", "a", "--every", "1ms"}, 64, "outside 100ms"},
		{[]string{"leader", "a"}, 1, "a: nobody leads"},
	} {
		code, _, says := p.leasehold(c.args...)
		if code != c.code || !strings.Contains(says, c.says) || strings.Count(says, "\n") != 1 {
			t.Errorf("%q: exit code %d, want %d; said %q, want %q in it", c.args, code, c.code, says, c.says)
		}
	}
	x := p.start("run", "a", "--", program, "elect", "a", "--", "true")
	if code := x.wait(t); code != 75 {
		t.Errorf("under a run of the same name: exit code %d: %s", code, x.err.String())
	}
}

func TestLeaderFollows(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	f := p.start("leader", "a", "--follow", "--every", "100ms")
	until(t, "nobody leads", func() bool { return f.out.String() == "\n" })
	x := p.candidate("a", "x:1")
	until(t, "x leads", func() bool { return f.out.String() == "\nx:1\n" && terms(x) == 1 })
	var v leaderView
	if err := json.Unmarshal([]byte(p.must("leader", "a", "--json")), &v); err != nil || v.Value != "x:1" || v.PID != p.held("a").Owner.PID ||
		v.Ticket != fmt.Sprint(p.held("a").Ticket) || v.Token != strings.TrimSpace(strings.TrimPrefix(x.out.String(), "x:1 ")) {
		t.Errorf("%+v, %v; it says %q", v, err, x.out.String())
	}
	x.Process.Signal(syscall.SIGTERM)
	until(t, "nobody leads", func() bool { return f.out.String() == "\nx:1\n\n" })
	f.Process.Signal(syscall.SIGINT)
	if code := f.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
