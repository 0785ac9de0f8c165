// Package child runs copies of the running program that talk to it by lines. The demos of
// the command line and the torture of locks use it.
//
// It promises that a child is reaped, and on Linux that no child outlives its parent. On
// other systems a child whose parent was killed reads the end of its input.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// Process is a copy of this program that talks to its parent by lines.
type Process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  limited       // on standard error
	ended chan struct{} // closed when it has ended and was reaped
	err   error         // how it ended
}

// Start starts one with more in its environment, and calls line with each line that it
// prints, in one goroutine.
func Start(args, env []string, line func(string)) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	var out io.Reader
	var err1, err2 error
	p.in, err1 = p.cmd.StdinPipe()
	out, err2 = p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	err = Launch(p.cmd, func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	})
	return p, err
}

// Say writes one line to the process.
func (p *Process) Say(text string) error {
	_, err := fmt.Fprintln(p.in, text)
	return err
}

// Kill ends the process, stopped or not, and waits for its end.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Halt stops the process until Proceed, as a pause of its machine would.
func (p *Process) Halt() error { return Halt(p.cmd.Process) }

// Proceed lets a stopped process go on.
func (p *Process) Proceed() error { return Proceed(p.cmd.Process) }

// Ended is closed when the process has ended and its last line was read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until the process has ended. It returns what the process said on standard
// error if it failed.
func (p *Process) Wait() error {
	<-p.ended
	if p.err == nil {
		return nil
	}
	return errors.Join(p.err, p.said.err())
}

// Launch starts a child that does not outlive this process where the system can see to
// that, and runs attend beside it, which must wait for it.
func Launch(cmd *exec.Cmd, attend func()) error {
	cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// Linux sends the parent-death signal when the THREAD that forked ends, and
		// Go ends idle threads (go.dev/issue/27505): this one stays for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			attend()
		}
	}()
	return <-started
}

// limited keeps the beginning of what a process says on its standard error.
type limited struct {
	mu   sync.Mutex
	text []byte
}

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p[:min(4096-len(l.text), len(p))]...)
	return len(p), nil
}

func (l *limited) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) == 0 {
		return nil
	}
	return errors.New(string(l.text))
}
