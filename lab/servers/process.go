package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// Process is one server process, its output in a log file.
type Process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has ended and was reaped
}

// Command says what to run.
type Command struct {
	Program string
	Args    []string
	Dir     string   // working folder; the log is written here
	Env     []string // in addition to this process's
	Host    *Host    // where to run it; nil: here

	// Unprivileged: root runs it as nobody, who owns Dir: some servers refuse
	// to run as root. Anybody else runs it as themselves.
	Unprivileged bool
}

// Start runs a command. It has its own process group, so that a terminal's
// interrupt reaches only the tests, which then close it in order.
func Start(c Command) (*Process, error) {
	path, err := find(c.Program)
	if err != nil {
		return nil, Installed(c.Program)
	}
	p := &Process{log: filepath.Join(c.Dir, filepath.Base(c.Program)+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	whole := append([]string{path}, c.Args...)
	if c.Host != nil {
		whole = append(inside(c.Host.namespace), whole...)
	}
	p.cmd = exec.Command(whole[0], whole[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Dir, out, out
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.SysProcAttr = childAttr()
	if c.Unprivileged {
		if err := disown(p.cmd.SysProcAttr, c.Dir); err != nil {
			out.Close()
			return nil, err
		}
	}

	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the THREAD that forked
		// ends, and Go ends idle threads (go.dev/issue/27505). This goroutine
		// keeps its thread for as long as the child lives; Wait sits in it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait() // how it ended is in its log, and no business of ours
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Program, err)
	}
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process runs (it may be stopped).
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Signal sends the process a signal.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop halts the process with SIGSTOP until Cont.
func (p *Process) Stop() error { return p.halt(true) }

// Cont lets a stopped process go on.
func (p *Process) Cont() error { return p.halt(false) }

// Tail is the end of the process's log.
func (p *Process) Tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const lines = 15
	b = bytes.TrimRight(bytes.ReplaceAll(b, []byte{0}, nil), "\n") // after a power cut a log has zeros
	for i, n := len(b)-1, 0; i >= 0; i-- {
		if b[i] == '\n' {
			if n++; n == lines {
				b = b[i+1:]
				break
			}
		}
	}
	return fmt.Sprintf("--- %s (pid %d)\n%s", filepath.Base(p.log), p.PID(), b)
}

// Until asks every few milliseconds until ok answers nil, and gives up with its
// last error when the process has ended or the bound has passed.
func (p *Process) Until(bound time.Duration, ok func() error) error {
	var err error
	for end := time.Now().Add(bound); time.Now().Before(end); {
		if err = ok(); err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w\n%s", err, p.Tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("not within %v: %w\n%s", bound, err, p.Tail())
}

// until is Until for conditions that belong to no single process.
func until(bound time.Duration, ok func() error) error {
	end := time.Now().Add(bound)
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %w", bound, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startBound is how long a server may take to be ready: a loaded two-core
// machine starts six at once.
const startBound = 30 * time.Second
