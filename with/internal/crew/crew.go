// Package crew is the processes of a host's test: copies of the test's own program that say
// what they do, one line for each step.
//
//	func TestMain(m *testing.M) {
//		if crew.Inside() {
//			work(crew.Task())
//			return
//		}
//		...
//	}
package crew

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"leasehold/internal/child"
)

const task = "LEASEHOLD_CREW_TASK"

// Inside reports whether this process is one of a crew.
func Inside() bool { return os.Getenv(task) != "" }

// Task is what this process was told to do.
func Task() string { return os.Getenv(task) }

// Say sends a line to the test. A process whose test is gone ends.
func Say(words ...any) {
	if _, err := fmt.Println(words...); err != nil {
		os.Exit(1)
	}
}

// Crew is the processes of one test, from 0.
type Crew struct {
	t     testing.TB
	procs []*child.Process
	lines chan line
}

type line struct {
	proc int
	text string
}

// Start starts a process for each task. They have ended when the test has.
func Start(t testing.TB, tasks ...string) *Crew {
	t.Helper()
	c := &Crew{t: t, lines: make(chan line, 10_000)}
	for i, what := range tasks {
		p, err := child.Start(nil, []string{task + "=" + what}, func(text string) { c.lines <- line{i, text} })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		c.procs = append(c.procs, p)
	}
	return c
}

// bound is how long Next waits for a line: much longer than any host's step takes.
const bound = time.Minute

// Next returns the next line that begins with the word, and which process said it. It drops
// the lines before it.
func (c *Crew) Next(word string) (proc int, rest string) {
	c.t.Helper()
	late := time.After(bound)
	for {
		select {
		case l := <-c.lines:
			if first, rest, _ := strings.Cut(l.text, " "); first == word {
				return l.proc, rest
			}
		case <-late:
			c.t.Fatalf("no process said %q within %v", word, bound)
		}
	}
}

// Kill ends a process as kill -9 does.
func (c *Crew) Kill(proc int) { c.procs[proc].Kill() }

// Halt stops a process until Proceed.
func (c *Crew) Halt(proc int) {
	c.t.Helper()
	if err := c.procs[proc].Halt(); err != nil {
		c.t.Fatal(err)
	}
}

// Proceed lets a stopped process go on.
func (c *Crew) Proceed(proc int) {
	c.t.Helper()
	if err := c.procs[proc].Proceed(); err != nil {
		c.t.Fatal(err)
	}
}

// Wait waits until all processes have ended by themselves, and returns what they have said
// that Next has not returned.
func (c *Crew) Wait() (lines []string) {
	c.t.Helper()
	for i, p := range c.procs {
		if err := p.Wait(); err != nil {
			c.t.Fatalf("process %d: %v", i, err)
		}
	}
	for {
		select {
		case l := <-c.lines:
			lines = append(lines, l.text)
		default:
			return lines
		}
	}
}
