// Package fleet runs several copies of the program that calls it, so that an
// example, or a demonstration, is one short program and still many processes.
//
//	func main() {
//		if fleet.Inside() {
//			work()     // one of the copies
//			return
//		}
//		fleet.Run(ctx, 8, dir, os.Args[1:], func(proc int, line string) { ... })
//	}
//
// The copies begin together: each calls Begin when it is ready and goes on
// when all are. What they print goes, line by line, to the function given to
// Run. A copy whose parent is gone ends at its next Print.
//
// What the copies share they keep in Dir.
package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// The environment variables that tell a copy its place and its directory.
const (
	place     = "LEASEHOLD_EXAMPLE_PROCESS"
	directory = "LEASEHOLD_EXAMPLE_DIR"
)

// ready is what a copy prints when it calls Begin; no example prints that.
const ready = "\x00ready"

// Inside reports whether this process is one of the copies.
func Inside() bool { return os.Getenv(place) != "" }

// Place is which of the copies this is, from 0.
func Place() int {
	n, _ := strconv.Atoi(os.Getenv(place)) // what Run wrote; 0 outside a fleet
	return n
}

// Dir is the directory that the copies share, as Run was told; empty outside a
// fleet.
func Dir() string { return os.Getenv(directory) }

// Begin returns when every copy has called it.
func Begin() {
	Print(ready)
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		os.Exit(1) // the parent is gone
	}
}

// Print sends one line to the parent.
func Print(line string) {
	if _, err := fmt.Println(line); err != nil {
		os.Exit(1) // the parent is gone
	}
}

// Run starts n copies of this program, which share the directory dir, and calls
// line, one call at a time, with each line that one prints. It returns when all have
// ended: nil if each succeeded, otherwise what the first said on its standard
// error. When ctx ends, copies still running are killed, which is no error.
func Run(ctx context.Context, n int, dir string, args []string, line func(proc int, text string)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // one that fails must not leave the others waiting in Begin

	var (
		mu      sync.Mutex
		waiting []io.WriteCloser
		first   error
		wg      sync.WaitGroup
	)
	fail := func(proc int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil && ctx.Err() == nil {
			first = fmt.Errorf("process %d: %w", proc, err)
			stop()
		}
	}
	for proc := range n {
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", place, proc), directory+"="+dir)
		var said limited
		cmd.Stderr = &said
		stdin, err1 := cmd.StdinPipe()
		stdout, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2); err != nil {
			fail(proc, err)
			break
		}
		if err := cmd.Start(); err != nil {
			fail(proc, err)
			break
		}
		wg.Go(func() {
			defer stdin.Close()
			lines := bufio.NewScanner(stdout)
			for lines.Scan() {
				mu.Lock()
				if lines.Text() != ready {
					line(proc, lines.Text())
				} else if waiting = append(waiting, stdin); len(waiting) == n {
					for _, w := range waiting {
						w.Write([]byte{'\n'}) // one that died is reported by its own Wait
					}
				}
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				fail(proc, errors.Join(err, said.err()))
			}
		})
	}
	wg.Wait()
	return first
}

// limited keeps the beginning of what a copy says on its standard error.
type limited struct{ text []byte }

func (l *limited) Write(p []byte) (int, error) {
	room := 4096 - len(l.text)
	l.text = append(l.text, p[:min(room, len(p))]...)
	return len(p), nil
}

func (l *limited) err() error {
	if len(l.text) == 0 {
		return nil
	}
	return errors.New(string(l.text))
}
