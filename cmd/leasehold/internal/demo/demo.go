// Package demo shows how hand-written locks fail: a schedule is played by several
// processes, first with the lock as articles have it, then with leasehold.
//
// A schedule drives its processes by lines on their standard input and output. It stops,
// continues and kills them, and says on a timeline which of them believe to hold. It uses
// a server that the user names, under a random prefix that is removed afterwards, or one
// that it starts and ends itself.
package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Demo is one schedule.
type Demo struct {
	Name   string // of the command
	Short  string // what is shown
	Anchor string // of its section in docs/from-your-lock.md

	scheme string // of package handwritten
	how    string // what the hand-written lock does
	on     store
	lanes  []string
	play   func(*stage) finding
	chance time.Duration // see stage; 0: a second
}

// finding is what a run has shown.
type finding struct {
	failed bool // the lock did not do what a lock is for
	seen   string
}

// Result is what both runs have shown.
type Result struct {
	ByHand, Ours bool // whether it failed
	Seen         string
}

// Shown reports whether the hand-written lock failed and leasehold did not.
func (r Result) Shown() bool { return r.ByHand && !r.Ours }

// Options are the choices of Run.
type Options struct {
	Server string // a URL; empty: start one
	Color  bool   // the output is a terminal
}

// Run plays the schedule twice and prints both timelines and what was seen. It has ended
// every process when it returns.
func (d Demo) Run(ctx context.Context, out io.Writer, o Options) (Result, error) {
	on, err := d.on.open(ctx, o.Server)
	if err != nil {
		return Result{}, err
	}
	defer on.close()
	byHand, err := d.run(ctx, out, o.Color, on, d.scheme, "By hand: "+d.how)
	if err != nil {
		return Result{}, err
	}
	ours, err := d.run(ctx, out, o.Color, on, "", "The same with leasehold")
	if err != nil {
		return Result{}, err
	}
	if !byHand.failed {
		byHand.seen = "nothing went wrong this time"
	}
	if ours.failed {
		ours.seen = "it was the same: " + ours.seen
	}
	r := Result{byHand.failed, ours.failed, fmt.Sprintf("By hand %s; with leasehold %s.", byHand.seen, ours.seen)}
	_, err = fmt.Fprintf(out, "\n%s\nRead on: docs/from-your-lock.md#%s\n", r.Seen, d.Anchor)
	return r, err
}

func (d Demo) run(ctx context.Context, out io.Writer, color bool, on ground, scheme, title string) (finding, error) {
	s := &stage{ctx: ctx, scheme: scheme, on: on, chance: cmp.Or(d.chance, time.Second), answers: make(chan answer, 256)}
	s.line = newTimeline(out, color, title, d.lanes)
	defer s.over()
	found := d.play(s)
	return found, s.err
}

// letters are the names of n processes.
func letters(n int) []string { return strings.Split("ABCDEFGHIJKLMNOPQRSTU"[:n], "") }
