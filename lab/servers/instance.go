package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// instance is a server of whatever kind: its folder, its address, and its process, which
// is another one after each restart.
type instance struct {
	Addr string // host:port for clients
	Dir  string // all that it has; Close removes it

	mu      sync.Mutex
	process *Process // nil: none was started yet
	ports   []func() // give them back
}

// newInstance makes the folder, on a disk of its own unless that is nil. Its name is short,
// since a socket in it may have a path of 107 bytes.
func newInstance(name string, on *Disk) (*instance, error) {
	dir, err := on.tempDir("lh-" + name)
	return &instance{Dir: dir}, err
}

// freePort is one that the server has until Close.
func (s *instance) freePort(offset int) (int, error) {
	port, release, err := freePort(offset)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ports = append(s.ports, release)
	}
	return port, err
}

// launch starts a process, which is the server's from now on.
func (s *instance) launch(c Command) error {
	p, err := Start(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	return nil
}

func (s *instance) current() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// serve starts what listens on one port of loopback, found at the first start and kept,
// and waits until it is ready. It begins again where a port was taken by somebody in
// between, or is not yet free after a server that was killed.
func (s *instance) serve(command func(port string) Command, ready func() error) error {
	fresh := s.Addr == ""
	return until(startBound, func() error {
		if fresh {
			port, err := s.freePort(0)
			if err != nil {
				return err
			}
			s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		_, port, _ := net.SplitHostPort(s.Addr)
		if err := s.launch(command(port)); err != nil {
			return err
		}
		return s.current().Until(startBound, ready)
	})
}

// Alive reports whether its process runs (it may be stopped).
func (s *instance) Alive() bool {
	p := s.current()
	return p != nil && p.Alive()
}

// PID is the process id.
func (s *instance) PID() int { return s.current().PID() }

// Kill ends the server with SIGKILL.
func (s *instance) Kill() error { return s.current().Kill() }

// Stop halts the server with SIGSTOP.
func (s *instance) Stop() error { return s.current().Stop() }

// Cont lets a stopped server go on.
func (s *instance) Cont() error { return s.current().Cont() }

// Tail is the end of its log.
func (s *instance) Tail() string {
	if p := s.current(); p != nil {
		return p.Tail()
	}
	return "not started"
}

// Close kills the server and removes its folder. Closing twice is allowed.
func (s *instance) Close() error {
	var err error
	if p := s.current(); p != nil {
		err = p.Kill()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, release := range s.ports {
		release()
	}
	s.ports = nil
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// anew starts something with other ports where another process has taken one of them in
// between.
func anew[S any](try func() (S, error)) (s S, err error) {
	for range 5 {
		if s, err = try(); err == nil || !strings.Contains(err.Error(), "ddress already in use") {
			break
		}
	}
	return s, err
}

// toEnd runs a program that ends by itself.
func toEnd(c Command) error {
	p, err := Start(c)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-time.After(startBound):
		return errors.Join(fmt.Errorf("%s hangs\n%s", c.Program, p.Tail()), p.Kill())
	}
	if !p.cmd.ProcessState.Success() {
		out, _ := os.ReadFile(p.log) // its end may be advice, and say nothing of what happened
		return fmt.Errorf("%s: %v\n%s", c.Program, p.cmd.ProcessState, out)
	}
	return nil
}

// answer is what a program prints, without the last end of a line.
func answer(program string, args ...string) (string, error) {
	path, err := find(program)
	if err != nil {
		return "", Installed(program)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
