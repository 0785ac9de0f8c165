//go:build linux

package main

import (
	"syscall"
	"testing"
)

// A waiter that somebody has stopped does not keep the name from those behind it when
// its turn comes, and waits anew when it is continued. In a short run two of the ways are tried on
// one engine alone.
func TestStoppedWaiterPassesItsTurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sig  syscall.Signal
		args []string
	}{
		{"Ctrl-Z", syscall.SIGTSTP, nil},
		{"the launcher alone", syscall.SIGSTOP, nil},
		{"with a minimum", syscall.SIGSTOP, []string{"--min-hold", "1h"}},
		{"with a bound", syscall.SIGSTOP, []string{"--wait", "25s"}},
	} {
		for _, engine := range []string{"dir", "redis"} {
			if testing.Short() && engine == "redis" && c.args != nil {
				continue
			}
			t.Run(c.name+" on "+engine, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				if engine == "redis" {
					p, _ = redisPlace(t)
				}
				holder := p.start("run", "turn", "--", "sleep", "60")
				p.held("turn")
				x := p.start(append(append([]string{"run", "turn"}, c.args...), "--", "echo", "ran")...)
				until(t, "it waits", func() bool { return len(p.line("turn").Claims) == 2 })
				keeper := p.line("turn").Claims[1].Owner.PID
				x.Process.Signal(c.sig)
				stopped := x.Process.Pid
				if c.sig == syscall.SIGTSTP {
					stopped = keeper // the launcher, without a terminal, goes on
				}
				until(t, "it is stopped", func() bool { pr, ok := look(stopped); return ok && pr.state == "T" })
				holder.Process.Signal(syscall.SIGTERM)
				if out := p.must("run", "turn", "--wait", "25s", "--", "echo", "next"); out != "next\n" || x.out.String() != "" {
					t.Errorf("the next one printed %q, the stopped one %q", out, x.out.String())
				}
				x.Process.Signal(syscall.SIGCONT)
				if code := x.wait(t); code != 0 || x.out.String() != "ran\n" {
					t.Errorf("continued: exit code %d, printed %q: %s", code, x.out.String(), x.err.String())
				}
			})
		}
	}
}
