//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"leasehold/lab/servers"
)

// session is an interactive shell on a terminal, and a person typing.
type session struct {
	*place
	tty   *os.File
	shell *exec.Cmd

	mu   sync.Mutex
	said bytes.Buffer
}

func (p *place) session() *session {
	p.Helper()
	servers.Need(p, "bash")
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(p.env, "PS1=ready> ", "TERM=xterm", "leasehold="+program, "HISTFILE=", "INPUTRC=/dev/null")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		p.Fatal(err)
	}
	s := &session{place: p, tty: tty, shell: cmd}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			s.mu.Lock()
			s.said.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	p.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		tty.Close() // hangs up on whatever is left
		<-read
		if p.Failed() {
			p.Logf("the terminal showed:\n%s", strings.ReplaceAll(s.said.String(), "\r", ""))
		}
	})
	s.expect("ready> ")
	return s
}

func (s *session) typed(text string) {
	s.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.Fatal(err)
	}
}

// expect waits until text was shown, and forgets it and what was before.
func (s *session) expect(text string) {
	s.Helper()
	until(s, fmt.Sprintf("the terminal shows %q", text), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := bytes.Index(s.said.Bytes(), []byte(text)); i >= 0 {
			s.said.Next(i + len(text))
			return true
		}
		return false
	})
}

// command types a command whose output is not to be found in its echo.
func (s *session) enter(line string) {
	s.Helper()
	s.typed(line + "\n")
	s.expect("\n") // the end of its echo
}

// awaitStopped waits until the shell knows that its job is stopped. A shell does
// not continue a job that it believes to run: bash leaves any program stopped
// that stops itself while its "fg" begins (3 of 400 runs of a plain sh).
func (s *session) awaitStopped() {
	s.Helper()
	until(s, "the job is stopped", func() bool {
		s.enter("jobs")
		time.Sleep(100 * time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		return bytes.Contains(s.said.Bytes(), []byte("Stopped"))
	})
}

// reader is a command that reads the terminal.
const reader = `sh -c 'echo on; while read -r l; do echo "<$l>"; done; echo off'`

func TestTerminalIsTheCommands(t *testing.T) {
	s := newPlace(t).session()
	s.enter(`$leasehold run tty -- ` + reader + `; echo "code=$?"`)
	s.expect("on\r\n")
	s.enter("one")
	s.expect("<one>")
	s.typed("\x04") // Ctrl-D
	s.expect("off")
	s.expect("code=0")
	s.expect("ready> ")
	// The shell has its terminal again.
	s.enter("read x; echo \"got $x\"")
	s.enter("two")
	s.expect("got two")
}

func TestCtrlC(t *testing.T) {
	t.Parallel()
	s := newPlace(t).session()
	// The command gets it once.
	s.enter(`$leasehold run tty -- sh -c 'n=0; trap "n=\$((n+1))" INT; echo on; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; trap - INT; echo "n=$n"; while :; do sleep 0.05; done'; echo "code=$?"`)
	s.expect("on\r\n")
	s.typed("\x03")
	s.expect("n=1")
	s.typed("\x03")
	s.expect("code=130")
	s.expect("ready> ")
	if l := s.line("tty"); len(l.Claims) > 0 {
		t.Errorf("still held: %+v", l.Claims)
	}
}

func TestCtrlCWhileWaiting(t *testing.T) {
	s := newPlace(t).session()
	s.start("run", "tty", "--", "sleep", "60")
	s.held("tty")
	s.enter(`$leasehold run tty -- echo ran; echo "code=$?"`)
	until(t, "it waits", func() bool { return len(s.line("tty").Claims) == 2 })
	s.typed("\x03")
	s.expect("code=130")
	s.expect("ready> ")
}

// The lease is kept while a person has stopped the command, for longer than
// its TTL.
func TestCtrlZ(t *testing.T) {
	t.Parallel()
	s := newPlace(t).session()
	s.enter(`$leasehold run tty --ttl 6s -- ` + reader + `; echo "code=$?"`)
	s.expect("on\r\n")
	ticket := s.held("tty").Ticket
	for _, text := range []string{"one", "two"} {
		s.typed("\x1a")
		s.expect("Stopped")
		s.expect("ready> ")
		if text == "one" {
			time.Sleep(6300 * time.Millisecond)
		}
		if c := s.held("tty"); c.Ticket != ticket {
			t.Fatalf("lost: %+v", c)
		}
		s.enter("fg")
		s.enter(text)
		s.expect("<" + text + ">")
	}
	s.typed("\x03")
	s.expect("ready> ")
}

// Put into the background, it runs on; reading the terminal stops it.
func TestBackground(t *testing.T) {
	t.Parallel()
	s := newPlace(t).session()
	// sleep runs when "on" is shown: a child that Ctrl-Z stops between vfork and
	// exec keeps its shell from stopping, with leasehold or without.
	s.enter(`$leasehold run tty -- sh -c 'sleep 3 & echo on; wait; echo slept; read -r l; echo "<$l>"'`)
	s.expect("on\r\n")
	s.typed("\x1a")
	s.expect("Stopped")
	s.enter("bg")
	s.expect("slept")
	s.awaitStopped()
	s.enter("fg")
	s.enter("back")
	s.expect("<back>")
	s.expect("ready> ")

	s.enter(`$leasehold run tty -- ` + reader + ` &`)
	s.expect("on\r\n")
	s.awaitStopped()
	s.enter("fg")
	s.enter("again")
	s.expect("<again>")
	s.typed("\x03")
	s.expect("ready> ")
}

func TestCtrlZWhileWaiting(t *testing.T) {
	s := newPlace(t).session()
	x := s.start("run", "tty", "--", "sleep", "60")
	s.held("tty")
	s.enter(`$leasehold run tty -- ` + reader)
	until(t, "it waits", func() bool { return len(s.line("tty").Claims) == 2 })
	s.typed("\x1a")
	s.expect("Stopped")
	s.enter("fg")
	x.Process.Signal(syscall.SIGTERM)
	s.expect("on\r\n")
	s.enter("one")
	s.expect("<one>")
	s.typed("\x03")
	s.expect("ready> ")
}

// In a pipeline the others of the job need the terminal as well: it is given
// to the command only when it asks.
func TestPipeline(t *testing.T) {
	s := newPlace(t).session()
	s.enter(`$leasehold run tty --ttl 5s -- ` + reader + ` | sed -u s/^/piped:/`)
	s.expect("piped:on")
	s.enter("one")
	s.expect("piped:<one>")
	s.typed("\x1a")
	s.expect("Stopped")
	s.enter("fg")
	s.enter("two")
	s.expect("piped:<two>")
	s.typed("\x03")
	s.expect("ready> ")
	s.enter("echo code=${PIPESTATUS[0]}")
	s.expect("code=130")

	// The other end reads the terminal, the command does not.
	s.enter(`$leasehold run tty -- sh -c 'echo on; sleep 60' | sh -c 'read -r l; echo "<$l>"; read -r l < /dev/tty; echo "<$l>"'`)
	s.expect("<on>")
	s.enter("three")
	s.expect("<three>")
	s.typed("\x03")
	s.expect("ready> ")
}

// A script that runs leasehold ends with it, as if it were not there.
func TestCtrlCEndsTheScriptToo(t *testing.T) {
	s := newPlace(t).session()
	s.enter(`sh -c '$leasehold run tty -- sh -c "echo on; exec sleep 60"; touch ` + s.file("on") + `'`)
	s.expect("on\r\n")
	s.typed("\x03")
	s.expect("ready> ")
	s.enter("echo $((6*7))")
	s.expect("42")
	if _, err := os.Stat(s.file("on")); err == nil {
		t.Error("the script went on")
	}
}

// A Ctrl-C is for the candidate too, also when the lead is lost already.
func TestCtrlCAfterTheLossEndsTheCandidate(t *testing.T) {
	s := newPlace(t).session()
	s.enter(`$leasehold elect tty -- sh -c 'trap "echo told" TERM; echo on; while :; do sleep 0.05; done'; echo "code=$?"`)
	s.expect("on\r\n")
	s.revoke("tty")
	s.expect("told")
	s.typed("\x03")
	s.expect("code=76")
	s.expect("ready> ")
}

// A candidate in the background says that it has lost, also on a terminal that stops who writes in
// the background, and stands again.
func TestACandidateInTheBackgroundStandsAgain(t *testing.T) {
	t.Parallel()
	s := newPlace(t).session()
	s.enter("stty tostop")
	s.enter(`$leasehold elect tty -- sh -c 'while :; do sleep 0.05; done' &`)
	led := s.held("tty")
	for what, lose := range map[string]func(){
		"revoked":               func() { s.revoke("tty") },
		"its keeper was killed": func() { syscall.Kill(led.Owner.PID, syscall.SIGKILL) },
	} {
		lose()
		until(t, what+": it stands again", func() bool {
			cs := s.line("tty").Claims
			return len(cs) == 1 && cs[0].Ticket > led.Ticket
		})
		led = s.held("tty")
	}
	s.enter(`kill %1; wait %1; echo "code=$?"`)
	s.expect("code=143")
}

// And it stops with it.
func TestCtrlZStopsTheScriptToo(t *testing.T) {
	s := newPlace(t).session()
	script := s.file("script")
	if err := os.WriteFile(script, []byte("$leasehold run tty -- "+reader+"\necho went on $?\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.enter("export leasehold; sh " + script)
	s.expect("on\r\n")
	s.typed("\x1a")
	s.expect("Stopped")
	s.enter("fg")
	s.enter("one")
	s.expect("<one>")
	s.typed("\x04")
	s.expect("off")
	s.expect("went on 0")
}

func TestEditor(t *testing.T) {
	t.Parallel()
	servers.Need(t, "vi")
	p := newPlace(t)
	path := p.file("text")
	s := p.session()
	s.enter(`$leasehold run tty --ttl 6s -- vi -u NONE -i NONE ` + path)
	s.expect("~")
	s.typed("ihello\x1b")
	s.expect("hello")
	s.typed("\x1a")
	s.expect("Stopped")
	s.expect("ready> ")
	time.Sleep(6300 * time.Millisecond)
	s.enter("fg")
	s.expect("hello")
	s.typed("a world\x1b:wq\n")
	s.expect("ready> ")
	s.enter("echo code=$?")
	s.expect("code=0")
	if text := p.content(path); text != "hello world" {
		t.Errorf("the file says %q", text)
	}
}

// The end of a session, which hangs up its terminal, ends everything.
func TestHangUp(t *testing.T) {
	p := newPlace(t)
	s := p.session()
	pid := p.file("pid")
	s.enter(`$leasehold run tty -- sh -c 'echo $$ > ` + pid + `; sleep 60'`)
	p.content(pid)
	s.shell.Process.Kill()
	until(t, "nobody holds it", func() bool { return len(p.line("tty").Claims) == 0 })
}
