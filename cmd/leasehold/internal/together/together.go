// Package together runs copies of this program that begin at one moment, for the demos.
package together

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"leasehold/internal/child"
)

// Inside reports whether this process is one that a demo has started.
func Inside() bool { return os.Getenv(inside) != "" }

const inside = "LEASEHOLD_DEMO_PROCESS"

// Start starts a process of a demo.
func Start(args []string, line func(string)) (*child.Process, error) {
	return child.Start(args, []string{inside + "=1"}, line)
}

// ready is what a process prints when it calls [Begin].
const ready = "ready"

// Begin returns when every process of [Run] has called it.
func Begin() {
	fmt.Println(ready)
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		os.Exit(1) // the parent is gone
	}
}

// Run runs n processes, which go on from Begin together, and calls line, one call at
// a time, with each line that one prints after that. It returns when all have ended, with
// the error of the first that failed. When ctx ends it kills those that still run.
func Run(ctx context.Context, n int, args []string, line func(string)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var all []*child.Process
	waiting := 0
	heard := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if text != ready {
			line(text)
			return
		}
		if waiting++; waiting == n {
			for _, p := range all {
				p.Say("") // a process that died is reported by its own Wait
			}
		}
	}
	var wg sync.WaitGroup
	mu.Lock() // all are in the list before one is heard
	for range n {
		p, err := Start(args, heard)
		if err != nil {
			stop(err)
			break
		}
		all = append(all, p)
		wg.Go(func() {
			defer context.AfterFunc(ctx, p.Kill)()
			if err := p.Wait(); err != nil {
				stop(err) // a process that fails must not leave the others waiting in Begin
			}
		})
	}
	mu.Unlock()
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
