//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// passing is leasehold serve with sockets as systemd passes them.
func passing(t *testing.T, sockets ...interface{ File() (*os.File, error) }) *exec.Cmd {
	t.Helper()
	// LISTEN_PID is the process that they are for, which the shell becomes.
	script := fmt.Sprintf(`LISTEN_FDS=%d LISTEN_PID=$$ exec "$0" serve --quiet --listen 127.0.0.1:0`, len(sockets))
	cmd := exec.Command("/bin/sh", "-c", script, program)
	for _, s := range sockets {
		f, err := s.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	return cmd
}

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func datagrams(t *testing.T) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The server takes the socket, and says when it is ready and when it stops.
func TestServeUnderSystemd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket, manager := listen(t), datagrams(t)
	hears := func(want string) {
		t.Helper()
		heard := make([]byte, 100)
		manager.SetReadDeadline(time.Now().Add(patience))
		n, err := manager.Read(heard)
		if err != nil || string(heard[:n]) != want {
			t.Fatalf("the manager hears %q, want %q: %v", heard[:n], want, err)
		}
	}
	cmd := passing(t, socket)
	cmd.Env = append(p.env, "NOTIFY_SOCKET="+manager.LocalAddr().String())
	x := p.startCmd(cmd)
	socket.Close() // the server alone accepts
	hears("READY=1")
	url := "http://" + socket.Addr().String()
	answer, err := http.Post(url+"/v1/locks/a", "application/json", strings.NewReader(`{"ttl": "5m"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode/100 != 2 || !strings.Contains(string(body), `"held"`) {
		t.Errorf("it answers %s %s: %v", answer.Status, body, err)
	}
	if err := x.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hears("STOPPING=1")
	if code := x.wait(t); code != 0 || !strings.Contains(x.err.String(), "serving on "+url+"\n") {
		t.Errorf("it ends with %d and says %q, and the socket is %s", code, x.err.String(), url)
	}
}

// A unit that passes something else is refused: the server would answer where nobody asks.
func TestServeRefusesTheWrongSockets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for says, cmd := range map[string]*exec.Cmd{
		"systemd passed 2 sockets": passing(t, listen(t), listen(t)),
		"systemd passed 1 sockets": passing(t, udp.(*net.UDPConn)),
	} {
		cmd.Env = p.env
		x := p.startCmd(cmd)
		if code := x.wait(t); code != codeFailed || !strings.Contains(x.err.String(), says) {
			t.Errorf("it ends with %d and says %q, want %q", code, x.err.String(), says)
		}
	}
}

// The list of callers has words between spaces. A prefix with a space would be two, and the caller
// could use names that nobody meant.
func TestATokenHasNoWordThatIsTwo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, args := range [][]string{
		{"token", "billing", "--prefix", "team a/"}, {"token", "billing", "--prefix", ""}, {"token", "billing", "--allow", "lock look"}, {"token", "bill ing"},
	} {
		if code, out, text := p.leasehold(args...); code != codeUsage || out != "" {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, text)
		}
	}
	if out := p.must("token", "billing", "--prefix", "team-a/", "--prefix", "team-b/"); out == "" {
		t.Error("no token")
	}
}

// A token whose line nobody has is of no use, and there is no second chance to read the line.
func TestATokenIsNotPrintedWithoutItsLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.startCmd(shell(`exec "$0" token billing 2> /dev/full`, program))
	if code := x.wait(t); code != codeFailed || x.out.String() != "" {
		t.Errorf("exit code %d, printed %q", code, x.out.String())
	}
}
