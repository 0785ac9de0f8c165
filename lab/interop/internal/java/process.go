package java

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Process is one Java process with one client.
type Process struct {
	library string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  tail
	ended   chan struct{} // closed when all it said was read and it was reaped

	mu      sync.Mutex
	tags    int
	waiting map[string]chan Answer // by tag; nil once it has ended
}

// Thread is one thread of a process.
type Thread struct {
	process *Process
	number  int
}

// Answer is how a command ended.
type Answer struct {
	Began, Ended int64 // nanoseconds of CLOCK_MONOTONIC (on Linux), by the Java process
	Value        string
	Err          error // *[Exception] if Java threw one
}

// Exception is what a command threw.
type Exception struct {
	Class   string // without its package
	Message string
}

func (e *Exception) Error() string { return e.Class + ": " + e.Message }

// Start starts a process with flags for java and arguments of the program, and
// waits until its client is connected and says that it is of the release that was
// built. Close or Kill must follow.
func (b *Program) Start(ctx context.Context, jvm []string, args ...string) (*Process, error) {
	path := filepath.Join(b.dir, "driver.jar") + string(filepath.ListSeparator) + filepath.Join(b.dir, "lib", "*")
	args = slices.Concat([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}, jvm, []string{"-cp", path, "leasehold.interop.Main"}, args)
	p := &Process{library: b.Library, cmd: exec.Command("java", args...), ended: make(chan struct{}), waiting: map[string]chan Answer{}}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start java: %w", err)
	}
	ready := make(chan string, 1)
	go p.read(stdout, ready)
	select {
	case version := <-ready:
		if version == b.Release {
			return p, nil
		}
		err = fmt.Errorf("%s: %s was to be started, and %q runs", b.Library, b.Release, version)
	case <-p.ended:
		err = p.gone()
	case <-ctx.Done():
		err = fmt.Errorf("%s: not ready in time: %w", b.Library, ctx.Err())
	}
	p.Kill()
	return nil, fmt.Errorf("%w\n%s", err, p.stderr.String())
}

// Thread is the thread of that number. It begins with its first command.
func (p *Process) Thread(number int) *Thread {
	return &Thread{p, number}
}

// Do carries out a command and waits for its end. Arguments have no spaces. The
// error is the answer's own, or ctx's; the command then goes on.
func (t *Thread) Do(ctx context.Context, command string, args ...string) (Answer, error) {
	select {
	case a := <-t.Go(command, args...):
		return a, a.Err
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("%s: %s %s goes on: %w", t.process.library, command, strings.Join(args, " "), ctx.Err())
	}
}

// Go begins a command; its answer comes when it has ended. The command "interrupt"
// is carried out at once, on the one under way.
func (t *Thread) Go(command string, args ...string) <-chan Answer {
	p := t.process
	answer := make(chan Answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		answer <- Answer{Err: p.gone()}
		return answer
	}
	p.tags++
	tag := strconv.Itoa(p.tags)
	p.waiting[tag] = answer
	words := append([]string{tag, strconv.Itoa(t.number), command}, args...)
	// An error means that the process has ended: whoever reads its output says so.
	io.WriteString(p.stdin, strings.Join(words, " ")+"\n")
	return answer
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process with SIGKILL, with all that it holds, and waits until it
// is gone.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // fails only if it has ended
	<-p.ended
}

// Close ends the process. What it holds stays until it expires.
func (p *Process) Close() error {
	err := p.stdin.Close()
	<-p.ended
	return err
}

// Said is the end of what the process wrote on its standard error.
func (p *Process) Said() string { return p.stderr.String() }

func (p *Process) read(stdout io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<22) // the times of many pairs are one line
	for lines.Scan() {
		line := lines.Text()
		if version, ok := strings.CutPrefix(line, "ready "); ok {
			ready <- version
			continue
		}
		tag, rest, _ := strings.Cut(line, " ")
		p.mu.Lock()
		answer := p.waiting[tag]
		delete(p.waiting, tag)
		p.mu.Unlock()
		if answer != nil {
			answer <- parse(rest)
		}
	}
	p.cmd.Wait()
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, answer := range waiting {
		answer <- Answer{Err: p.gone()}
	}
	close(p.ended)
}

func (p *Process) gone() error {
	return fmt.Errorf("%s: the Java process has ended: %s", p.library, p.stderr.String())
}

// parse reads "BEGAN ENDED ok VALUE" and "BEGAN ENDED failed EXCEPTION MESSAGE".
func parse(line string) (a Answer) {
	words := strings.SplitN(line, " ", 4)
	if len(words) < 3 {
		return Answer{Err: fmt.Errorf("java: no answer: %q", line)}
	}
	var err1, err2 error
	a.Began, err1 = strconv.ParseInt(words[0], 10, 64)
	a.Ended, err2 = strconv.ParseInt(words[1], 10, 64)
	rest := ""
	if len(words) == 4 {
		rest = words[3]
	}
	if a.Value = rest; words[2] != "ok" {
		class, message, _ := strings.Cut(rest, " ")
		a.Value, a.Err = "", &Exception{class, message}
	}
	if err := errors.Join(err1, err2); err != nil {
		a.Err = fmt.Errorf("java: no answer: %q: %w", line, err)
	}
	return a
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append([]byte{}, last(append(t.text, b...))...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
