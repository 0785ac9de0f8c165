// Command failures does to every engine every fault that it can have, and writes
// docs/failures.md: how long until the next holds, when the old one was told, how
// long two held at once, whether tokens rose, and what a fenced and an unfenced
// resource kept of the data.
//
//	go run ./lab/bench/failures -write docs/failures.md     # all of it, eight minutes
//	go run ./lab/bench/failures -only 'queuelock|holder'    # what matches, to the terminal
//	go run ./lab/bench/failures -only '^httplock' -write docs/failures.md  # their sections alone
//
// What it promises: real servers, real processes, and no figure that was not
// measured in this run. It exits with 1, and writes nothing, if two held for longer
// than the guarantee of the engine allows, if somebody who waited never held, if a
// holder was not told, if tokens fell where they must rise, if a fenced resource lost
// data; and if a trial could not be run, or its fault did not come: what shows
// nothing must not look as if nothing was wrong. What it cannot: show what needs
// several machines, such as skew between servers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// atOnce is how many trials run side by side. They mostly wait.
const atOnce = 3

func main() {
	if is, err := part(); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	broken, err := run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "failures:", err)
		os.Exit(2)
	case broken:
		os.Exit(1)
	}
}

func run(ctx context.Context) (broken bool, err error) {
	only := flag.String("only", "", "regular expression: run the trials whose `engine, fault` matches")
	path := flag.String("write", "", "the document to write; with -only, the sections of the engines of which every trial matches")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return false, err
	}
	began := time.Now()
	rows := trials(match)
	if len(rows) == 0 {
		return false, fmt.Errorf("no trial matches %q: they are called `engine, fault`, such as %q", *only, "filelock, "+holderKilled)
	}
	var (
		running sync.WaitGroup
		permits = make(chan struct{}, atOnce)
	)
	for _, r := range rows {
		if r.why != "" {
			continue
		}
		running.Go(func() {
			select {
			case permits <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-permits }()
			r.measure(ctx)
			fmt.Fprintln(os.Stderr, r.line())
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	for _, r := range rows {
		for _, wrong := range r.wrong() {
			broken = true
			fmt.Fprintf(os.Stderr, "BROKEN: %s, %s: %s\n", r.engine, r.fault, wrong)
		}
	}
	if *path == "" || broken {
		return broken, nil
	}
	page := document(rows, time.Since(began))
	if *only != "" {
		old, err := os.ReadFile(*path)
		if err != nil {
			return false, err
		}
		if page, err = renewed(old, rows); err != nil {
			return false, err
		}
	}
	return false, os.WriteFile(*path, page, 0o644)
}
