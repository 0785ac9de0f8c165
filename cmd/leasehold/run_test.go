//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string // on stderr; empty: nothing at all
	}{
		{"of the command", []string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{"success", []string{"--", "true"}, 0, ""},
		{"a code of ours is the command's own", []string{"--", "sh", "-c", "exit 76"}, 76, ""},
		{"killed by TERM", []string{"--", "sh", "-c", "kill -TERM $$"}, 143, ""},
		{"killed by KILL", []string{"--", "sh", "-c", "kill -KILL $$"}, 137, ""},
		{"killed by INT", []string{"--", "sh", "-c", "kill -INT $$"}, 130, ""},
		{"no such command", []string{"--", "no-such-command"}, 127, `cannot run "no-such-command"`},
		{"no such path", []string{"--", "/no/such/command"}, 127, "no such file"},
		{"not executable", []string{"--", "/etc/passwd"}, 126, "permission denied"},
		{"a directory", []string{"--", "/etc"}, 126, `cannot run "/etc"`},
		{"not a program", []string{"--", notAProgram(t)}, 126, "exec format error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := p.leasehold(append([]string{"run", "codes"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if c.says == "" {
				if stderr != "" {
					t.Errorf("said %q", stderr)
				}
				return
			}
			one(t, stderr, c.says)
		})
	}
	if l := p.line("codes"); len(l.Claims) != 0 {
		t.Errorf("left behind: %+v", l.Claims)
	}
}

func notAProgram(t *testing.T) string {
	path := t.TempDir() + "/garbage"
	if err := os.WriteFile(path, []byte{0, 1, 2, 3}, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// An answer that cannot be written is not the engine's fault.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "a", "--", "sleep", "60")
	p.held("a")
	for _, cmd := range []string{"ls", "ls --json", "show a", "show a --json", "show free", "watch", "demo --for 100ms", "completion bash", "--version", "--help", "run --help", "help", "help ls", "completion --help", "schema mysql", "graph", "why a"} {
		x := p.startCmd(shell(`exec "$0" `+cmd+` > /dev/full`, program))
		if code := x.wait(t); code != 1 {
			t.Errorf("%s: exit code %d", cmd, code)
		}
		one(t, x.err.String(), "no space left")
	}
}

func TestRunGivesNameAndToken(t *testing.T) {
	p := newPlace(t)
	var last uint64
	for range 3 {
		out := p.must("run", "the name", "--", "sh", "-c", `echo "$LEASEHOLD_NAME/$LEASEHOLD_TOKEN"`)
		name, token, _ := strings.Cut(strings.TrimSpace(out), "/")
		n, err := strconv.ParseUint(token, 10, 63)
		if name != "the name" || err != nil || n <= last {
			t.Fatalf("%q after the token %d", out, last)
		}
		last = n
	}
}

func TestRunPassesInputAndOutputOn(t *testing.T) {
	p := newPlace(t)
	x := p.startCmd(command3("run", "io", "--", "sh", "-c", "cat; echo err >&2"))
	if code := x.wait(t); code != 0 || x.out.String() != "given\n" || x.err.String() != "err\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, x.out.String(), x.err.String())
	}
}

// Files that a shell opened for the command reach it under their numbers.
func TestRunPassesDescriptorsOn(t *testing.T) {
	p := newPlace(t)
	x := p.startCmd(shell(`echo three > "$1"; echo four > "$2"
exec "$0" run fds -- sh -c 'cat <&3; cat <&4; cat <&9' 3< "$1" 4< "$2" 9< /dev/null`, program, p.file("3"), p.file("4")))
	if code := x.wait(t); code != 0 || x.out.String() != "three\nfour\n" {
		t.Errorf("exit code %d, %q, %q", code, x.out.String(), x.err.String())
	}
}

// Nothing of ours but the file that keeps the claim alive, where there is one: with the
// page a command could put its own end off.
func TestRunPassesNothingElseOn(t *testing.T) {
	const script = `for f in /proc/$$/fd/*; do readlink $f || :; done`
	for engine, more := range map[string]int{"dir": 1, "redis": 0} {
		t.Run(engine, func(t *testing.T) {
			p := newPlace(t)
			if engine == "redis" {
				p, _ = redisPlace(t)
			}
			alone := p.said(p.startCmd(shell(script))) // with what whoever runs the tests passes on
			out := p.must("run", "fds", "--", "sh", "-c", script)
			if got, want := strings.Count(out, "\n"), strings.Count(alone, "\n")+more; got != want || strings.Contains(out, "memfd:") {
				t.Errorf("%d descriptors, want %d:\n%salone:\n%s", got, want, out, alone)
			}
		})
	}
}

func TestRunExcludes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	log := p.file("log")
	var all []*process
	for range 4 {
		all = append(all, p.start("run", "log", "--", "sh", "-c", "echo in >> "+log+"; sleep 0.05; echo out >> "+log))
	}
	for _, x := range all {
		if code := x.wait(t); code != 0 {
			t.Fatalf("exit code %d: %s", code, x.err.String())
		}
	}
	if got, want := p.content(log), strings.TrimSpace(strings.Repeat("in\nout\n", 4)); got != want {
		t.Errorf("two at once:\n%s", got)
	}
}

func TestNotObtained(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "busy", "--label", "nightly", "--", "sleep", "60")
	holder := p.held("busy")
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"nonblock", []string{"--nonblock"}, 75},
		{"wait 0", []string{"--wait", "0s"}, 75},
		{"wait", []string{"--wait", "2s"}, 75},
		{"shared", []string{"--shared", "--nonblock"}, 75},
		{"own exit code", []string{"--nonblock", "--conflict-exit-code", "0"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"run", "busy"}, c.args...)
			code, out, stderr := p.answered(append(args, "--", "echo", "ran")...)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; printed %q", code, c.code, out)
			}
			one(t, stderr, `"busy" is held by`, fmt.Sprintf("pid %d (nightly)", holder.Owner.PID), fmt.Sprint("ticket ", holder.Ticket))
		})
	}
}

func TestSharedAndPermits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, mode := range []struct {
		name string
		args []string
		fit  int
	}{
		{"shared", []string{"--shared"}, 3},
		{"permits", []string{"--permits", "2", "--of", "5"}, 2},
	} {
		t.Run(mode.name, func(t *testing.T) {
			for i := range mode.fit {
				args := append([]string{"run", mode.name}, mode.args...)
				p.start(append(args, "--", "sleep", "60")...)
				until(t, "it is held", func() bool { return len(p.line(mode.name).Claims) == i+1 })
			}
			for _, c := range p.line(mode.name).Claims {
				if c.State != "held" || c.Mode != mode.name {
					t.Errorf("%+v", c)
				}
			}
			args := []string{"run", mode.name, "--nonblock"}
			if mode.name == "permits" {
				args = append(args, mode.args...)
			}
			if code, _, _ := p.answered(append(args, "--", "true")...); code != 75 {
				t.Errorf("one more: exit code %d", code)
			}
		})
	}
	code, _, stderr := p.leasehold("run", "permits", "--permits", "1", "--of", "4", "--", "true")
	if code != 64 {
		t.Errorf("another limit: exit code %d", code)
	}
	one(t, stderr, "limit 5", "wants 4")
}

// What the command leaves in the background is not waited for, and not killed.
func TestBackgroundGoesOnWithoutTheLock(t *testing.T) {
	p := newPlace(t)
	pid := p.file("pid")
	p.must("run", "bg", "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $! > "+pid)
	if l := p.line("bg"); len(l.Claims) != 0 {
		t.Errorf("still held: %+v", l.Claims)
	}
	left, err := strconv.Atoi(p.content(pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(left, 0); err != nil {
		t.Errorf("it was killed: %v", err)
	}
	syscall.Kill(left, syscall.SIGKILL)
}

// What a command is given it gets, however much and whatever bytes.
func TestArgumentsAndEnvironmentAreTheCommands(t *testing.T) {
	p := newPlace(t)
	odd := filepath.Join(t.TempDir(), "a\xffb")
	if err := os.Symlink("/bin/sh", odd); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 100_000)
	cmd := exec.Command(program, "run", "args", "--", odd, "-c", `printf %s "$0|$1|${#2}|${#3}|$ODD|${#LONG}"`, "zero", "\xfe", long, long)
	cmd.Env = append(p.env, "ODD=\xfd", "LONG="+long)
	x := p.startCmd(cmd)
	if code := x.wait(t); code != 0 || x.out.String() != "zero|\xfe|100000|100000|\xfd|100000" {
		t.Errorf("exit code %d, %.100q, %.100q", code, x.out.String(), x.err.String())
	}
}

// flock(1) holds as long as anything has its descriptor; this is that choice.
func TestHoldDescendants(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, c := range []struct{ name, script string }{
		{"in the background", "sleep 60 & echo $! > $MARK; exit 7"},
		{"in a session of its own, with nothing of ours open", `setsid sh -c 'echo $$ > $MARK; exec sleep 60 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-' & exit 7`},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "pid")
			cmd := exec.Command(program, "run", "all", "--hold-descendants", "--", "sh", "-c", c.script)
			cmd.Env = append(p.env, "MARK="+mark)
			x := p.startCmd(cmd)
			pid, err := strconv.Atoi(p.content(mark))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) // the command itself ends
			if code, _, _ := p.answered("run", "all", "--nonblock", "--", "true"); code != 75 {
				t.Errorf("held by another: exit code %d", code)
			}
			select {
			case <-x.done:
				t.Error("it has returned")
			default:
			}
			syscall.Kill(pid, syscall.SIGKILL)
			if code := x.wait(t); code != 7 {
				t.Errorf("exit code %d: %s", code, x.err.String())
			}
			if l := p.line("all"); len(l.Claims) > 0 {
				t.Errorf("still held: %+v", l.Claims)
			}
		})
	}
	t.Run("lost", func(t *testing.T) {
		pid := p.file("lost")
		x := p.start("run", "lost", "--hold-descendants", "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $! > "+pid)
		left, err := strconv.Atoi(p.content(pid))
		if err != nil {
			t.Fatal(err)
		}
		p.must("revoke", "lost", "--ticket", fmt.Sprint(p.held("lost").Ticket), "--now", "--yes")
		if code := x.wait(t); code != 76 {
			t.Errorf("exit code %d", code)
		}
		if _, lives := look(left); lives {
			t.Error("it still runs")
		}
	})
}

// Neither a process nor a zombie of leasehold is left when it has returned.
func TestNothingIsLeft(t *testing.T) {
	p := newPlace(t)
	subreaper(t)
	p.start("run", "busy", "--", "sleep", "60")
	p.held("busy")
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for _, args := range [][]string{
		{"left", "--", "true"},
		{"left", "--", "sh", "-c", "sleep 0.1 & exit 0"},
		{"busy", "--nonblock", "--", "true"},
		{"left", "--", notAProgram(t)},
	} {
		for range rounds {
			for tries := 1; ; tries++ {
				began := time.Now()
				x := p.start(append([]string{"run"}, args...)...)
				x.wait(t)
				// It does not wait for a reaper that is late by so much.
				late := time.Since(began) > grace
				left := reapers()
				if left == "" {
					break
				}
				if !late || tries == 5 {
					t.Errorf("%q left %s", args, left)
					break
				}
				var pid int
				fmt.Sscan(left, &pid)
				until(t, "the reaper has ended", func() bool {
					ended, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
					return err == nil && ended == pid
				})
			}
		}
	}
}

// subreaper makes this process the parent of what loses its own.
func subreaper(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// reapers are this process's children of that name.
func reapers() (found string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path)
		if strings.Contains(string(stat), fmt.Sprintf("(%s) Z %d ", reaperName, os.Getpid())) ||
			strings.Contains(string(stat), fmt.Sprintf("(%s) S %d ", reaperName, os.Getpid())) {
			found += string(stat)
		}
	}
	return found
}

func TestMinHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	start := time.Now()
	p.must("run", "cron", "--ttl", "3s", "--min-hold", "5s", "--", "true")
	if took := time.Since(start); took >= 5*time.Second {
		t.Errorf("waited %v itself, although the engine can keep the name", took)
	}
	if code, _, _ := p.answered("run", "cron", "--nonblock", "--", "true"); code != 75 && time.Since(start) < 5*time.Second {
		t.Errorf("held again %v later: exit code %d", time.Since(start), code)
	}
	p.must("run", "cron", "--wait", "20s", "--", "true")
	if took := time.Since(start); took < 5*time.Second {
		t.Errorf("held again after %v", took)
	}
}

// A command that could not be started keeps nobody from the name.
func TestMinHoldIsOfACommandThatRan(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if code, _, stderr := p.leasehold("run", "cron", "--min-hold", "1h", "--", notAProgram(t)); code != 126 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	p.must("run", "cron", "--nonblock", "--", "true")
}

func TestSignalsWhileWaiting(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "busy", "--", "sleep", "60")
	p.held("busy")
	for name, args := range map[string][]string{
		"run":     {"run", "busy", "--", "echo", "ran"},
		"acquire": {"acquire", "busy"},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
			t.Run(name+" "+sig.String(), func(t *testing.T) {
				x := p.start(args...)
				until(t, "it waits", func() bool { return len(p.line("busy").Claims) == 2 })
				x.Process.Signal(sig)
				if code := x.wait(t); code != 128+int(sig) || x.out.String() != "" || x.err.Len() > 0 {
					t.Errorf("exit code %d, printed %q and %q", code, x.out.String(), x.err.String())
				}
				if n := len(p.line("busy").Claims); n != 1 {
					t.Errorf("%d claims in the queue", n)
				}
			})
		}
	}
	t.Run("a window that is resized ends nothing", func(t *testing.T) {
		holder := p.start("run", "resized", "--", "sleep", "60")
		p.held("resized")
		x := p.start("run", "resized", "--", "echo", "ran")
		until(t, "it waits", func() bool { return len(p.line("resized").Claims) == 2 })
		x.Process.Signal(syscall.SIGWINCH)
		holder.Process.Signal(syscall.SIGTERM)
		if code := x.wait(t); code != 0 || x.out.String() != "ran\n" {
			t.Errorf("exit code %d, printed %q", code, x.out.String())
		}
	})
	t.Run("killed", func(t *testing.T) {
		x := p.start("run", "busy", "--", "echo", "ran")
		until(t, "it waits", func() bool { return len(p.line("busy").Claims) == 2 })
		x.Process.Kill()
		until(t, "its claim is gone", func() bool { return len(p.line("busy").Claims) == 1 })
	})
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		for _, to := range []string{"front", "keeper"} {
			if to == "keeper" && sig != syscall.SIGTERM {
				continue // it cannot know whether the group got it too
			}
			t.Run(sig.String()+" to the "+to, func(t *testing.T) {
				ready := p.file("ready" + to + sig.String())
				// One signal must be heard once.
				script := fmt.Sprintf(`n=0; trap 'n=$((n+1))' %d; : > '%s'; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.2; exit $((10+n))`, sig, ready)
				x := p.start("run", "signals", "--", "sh", "-c", script)
				p.exists(ready)
				pid := x.Process.Pid
				if to == "keeper" {
					pid = p.held("signals").Owner.PID
				}
				syscall.Kill(pid, sig)
				if code := x.wait(t); code != 11 {
					t.Errorf("exit code %d: %s", code, x.err.String())
				}
			})
		}
	}
}

// nohup's way of keeping a hang-up away must reach the command.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	p := newPlace(t)
	x := p.startCmd(shell(`trap '' HUP INT; exec "$0" run nohup -- sh -c 'kill -HUP $$; kill -INT $$; echo alive'`, program))
	if code := x.wait(t); code != 0 || x.out.String() != "alive\n" {
		t.Errorf("exit code %d, %q %q", code, x.out.String(), x.err.String())
	}
}
