//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// program is leasehold itself, built once: what these tests are about happens
// between processes.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leasehold-cli")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "leasehold")
	build := exec.Command("go", "build", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building leasehold: %v\n%s", err, out)
		return 1
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			// As under nohup or in the background; the programs that the tests hang up or
			// interrupt would inherit that.
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Unsetenv("LEASEHOLD_ENGINE") // whoever runs the tests may use one
	return m.Run()
}

// place is an engine of a test's own.
type place struct {
	*testing.T
	dir string
	env []string
}

func newPlace(t *testing.T) *place {
	dir := filepath.Join(t.TempDir(), "locks")
	return &place{T: t, dir: dir, env: append(os.Environ(), "LEASEHOLD_ENGINE=dir://"+dir)}
}

// buffer is what a process has printed so far.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) Len() int { return len(b.String()) }

// process is one run of it.
type process struct {
	*exec.Cmd
	out, err buffer
	done     chan struct{}
	code     int
}

// start starts leasehold. It is killed at the end of the test.
func (p *place) start(args ...string) *process {
	p.Helper()
	return p.startCmd(exec.Command(program, args...))
}

func (p *place) startCmd(cmd *exec.Cmd) *process {
	p.Helper()
	x := &process{Cmd: cmd, done: make(chan struct{})}
	if x.Env == nil {
		x.Env = p.env
	}
	x.Stdout, x.Stderr = &x.out, &x.err
	// What it started may outlive it and keep its output open.
	x.WaitDelay = time.Second
	if err := x.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		defer close(x.done)
		x.code = x.ProcessState.ExitCode()
		err := x.Wait()
		var exit *exec.ExitError
		if x.code = x.ProcessState.ExitCode(); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
			x.code = -2
		}
	}()
	p.Cleanup(func() {
		x.Process.Kill()
		<-x.done
	})
	return x
}

// wait returns the exit code.
func (x *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-x.done:
		return x.code
	case <-time.After(patience):
		t.Fatalf("%v still runs", x.Args)
		return 0
	}
}

// leasehold runs it to its end.
func (p *place) leasehold(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	x := p.start(args...)
	code = x.wait(p)
	return code, x.out.String(), x.err.String()
}

// answered is leasehold. It is run once more where the engine did not answer in the little time
// that --nonblock and a short --wait give it.
func (p *place) answered(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	for end := time.Now().Add(patience); ; {
		code, stdout, stderr = p.leasehold(args...)
		if code != codeUnavailable || time.Now().After(end) {
			return code, stdout, stderr
		}
	}
}

// must runs it to its end, which must be good, and returns what it printed.
func (p *place) must(args ...string) string {
	p.Helper()
	code, out, err := p.leasehold(args...)
	if code != 0 {
		p.Fatalf("leasehold %q: exit code %d, %s", args, code, err)
	}
	return out
}

// line is what show says.
func (p *place) line(name string) view.Queue {
	p.Helper()
	var v view.Queue
	if err := json.Unmarshal([]byte(p.must("show", name, "--json")), &v); err != nil {
		p.Fatal(err)
	}
	return v
}

// file is a path in a folder of the test's own.
func (p *place) file(name string) string { return filepath.Join(filepath.Dir(p.dir), name) }

// exists waits for a file that a command makes when it is as far.
func (p *place) exists(path string) {
	p.Helper()
	until(p, path+" exists", func() bool { _, err := os.Stat(path); return err == nil })
}

// content reads a file, waiting for it to have any.
func (p *place) content(path string) (text string) {
	p.Helper()
	until(p, path+" has content", func() bool {
		b, err := os.ReadFile(path)
		text = strings.TrimSpace(string(b))
		return err == nil && text != ""
	})
	return text
}

// held returns the first claim on name once it is held.
func (p *place) held(name string) view.Claim {
	p.Helper()
	var v view.Queue
	until(p, name+" is held", func() bool {
		v = p.line(name)
		return len(v.Claims) > 0 && v.Claims[0].State == engine.Held.String()
	})
	return v.Claims[0]
}

// one requires that text is one sentence on one line that contains each of
// want.
func one(t testing.TB, text string, want ...string) {
	t.Helper()
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("not one line: %q", text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}
