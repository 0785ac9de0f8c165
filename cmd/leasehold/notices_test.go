//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold"
	"leasehold/lab/servers"
)

// told is a run whose standard error can be read while it goes on.
func (p *place) notified(name string, args ...string) (x *process, said func() string) {
	p.Helper()
	log, err := os.Create(p.file(name + ".err"))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { log.Close() })
	// The shell's standard error is the test's; that of leasehold is the file.
	x = p.startCmd(exec.Command("sh", append([]string{"-c", `e=$1; shift; exec "$0" "$@" 2> "$e"`, program, log.Name()}, args...)...))
	return x, func() string {
		b, _ := os.ReadFile(log.Name())
		return string(b)
	}
}

// One line when the engine went down, one when it is back: to who holds and to
// who waits.
func TestEngineGoesDownAndComesBack(t *testing.T) {
	t.Parallel()
	p, s := redisPlaceWith(t, &servers.RedisOptions{Durable: true})
	holder, held := p.notified("holder", "run", "r", "--ttl", "30s", "--", "sleep", "60")
	until(t, "it has its full TTL", func() bool { return p.held("r").TTL > 24 })
	_, waits := p.notified("waiter", "run", "r", "--ttl", "15s", "--", "true")
	_, acquires := p.notified("acquirer", "acquire", "r")
	until(t, "both wait", func() bool { return len(p.line("r").Claims) == 3 })
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	for who, said := range map[string]func() string{"waiter": waits, "acquirer": acquires, "holder": held} {
		until(t, who+" is told", func() bool { return strings.Contains(said(), "r: the engine fails") })
	}
	if err := s.Restart(false); err != nil {
		t.Fatal(err)
	}
	for who, said := range map[string]func() string{"waiter": waits, "acquirer": acquires, "holder": held} {
		until(t, who+" is told", func() bool { return strings.Contains(said(), "r: the engine answers again, after ") })
		if n := strings.Count(said(), "\n"); n != 2 {
			t.Errorf("%s was told %q", who, said())
		}
	}
	select {
	case <-holder.done:
		t.Errorf("lost: %s", held())
	default:
	}
}

// What is over before a person could read of it is not told; what is told is
// told once.
func TestEngineNotice(t *testing.T) {
	down := func(n *engineNotice) {
		n.observe(leasehold.Event{Kind: leasehold.EventEngineDown, Err: fmt.Errorf("no answer")})
	}
	up := func(n *engineNotice) { n.observe(leasehold.Event{Kind: leasehold.EventEngineUp, Held: time.Second}) }
	for _, c := range []struct {
		name string
		do   func(*engineNotice)
		want string
	}{
		{"a moment", func(n *engineNotice) { down(n); up(n); time.Sleep(2 * noticeAfter) }, ""},
		{"longer", func(n *engineNotice) { down(n); time.Sleep(2 * noticeAfter) }, "fails"},
		{"and back", func(n *engineNotice) { down(n); time.Sleep(2 * noticeAfter); up(n); up(n) }, "fails again"},
		{"twice", func(n *engineNotice) {
			for range 2 {
				down(n)
				time.Sleep(2 * noticeAfter)
				up(n)
			}
		}, "fails again fails again"},
		{"over", func(n *engineNotice) { down(n); n.close(); time.Sleep(2 * noticeAfter) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b strings.Builder
				c.do(&engineNotice{app: &app{err: &b}, name: "n"})
				synctest.Wait()
				var got []string
				for line := range strings.Lines(b.String()) {
					switch {
					case strings.Contains(line, "n: the engine fails, leasehold tries again and again: no answer"):
						got = append(got, "fails")
					case strings.Contains(line, "n: the engine answers again, after 1s"):
						got = append(got, "again")
					default:
						t.Errorf("%q", line)
					}
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("said %q", b.String())
				}
			})
		})
	}
}

// Whoever waits at a terminal is told for whom, once, and nobody else is.
func TestWaitingAtATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "busy", "--label", "night\x1b[2Jly", "--", "sleep", "60")
	ticket := p.held("busy").Ticket
	p.start("run", "busy", "--", "sleep", "60")
	until(t, "another waits", func() bool { return len(p.line("busy").Claims) == 2 })
	x, silent := p.notified("silent", "run", "busy", "--", "true")
	until(t, "it waits", func() bool { return len(p.line("busy").Claims) == 3 })
	for i, cmd := range []string{"run busy -- true", "acquire busy"} {
		s := p.session()
		for try := 1; ; try++ {
			s.enter("$leasehold " + cmd)
			s.expect("leasehold: waiting for busy: held by ")
			s.expect(fmt.Sprintf(`(night\x1b[2Jly) (exclusive, ticket %d)`, ticket))
			if s.shows(", ", "\n") {
				s.expect(fmt.Sprintf("%d wait ahead", 2+i))
				break
			}
			if try == 3 {
				t.Fatal("it is not told how many wait ahead")
			}
			// It looked at the queue before its own claim was there.
			s.typed("\x03")
			s.expect("ready> ")
			until(t, "it does not wait any more", func() bool { return len(p.line("busy").Claims) == 3+i })
		}
	}
	if said := silent(); said != "" {
		t.Errorf("at no terminal it was told %q", said)
	}
	p.must("revoke", "busy", "--ticket", fmt.Sprint(p.line("busy").Claims[2].Ticket), "--yes")
	x.wait(t)
	one(t, silent(), "revoked")
}

// shows waits until the terminal shows one of two texts, and reports whether the first one is
// shown before the other. It forgets that one and what was before.
func (s *session) shows(text, other string) (first bool) {
	s.Helper()
	until(s, fmt.Sprintf("the terminal shows %q or %q", text, other), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		a, b := bytes.Index(s.said.Bytes(), []byte(text)), bytes.Index(s.said.Bytes(), []byte(other))
		switch {
		case a >= 0 && (b < 0 || a < b):
			s.said.Next(a + len(text))
			first = true
		case b >= 0:
			s.said.Next(b + len(other))
		}
		return a >= 0 || b >= 0
	})
	return first
}
