// Broken shows that the tests see: it plants faults, one at a time, in a copy
// of the tree, and runs for each the test that must go red.
//
//	go run ./lab/faults                   # every fault
//	go run ./lab/faults -sample 5         # five of them; prints the seed
//	go run ./lab/faults -run 'queue-.*'    # those whose file name matches
//
// A fault is a file in lab/faults/patches: a unified diff, as git diff
// writes it, under three lines that say what it is for.
//
//	# fault: a renewal moves the deadline earlier
//	# package: leasehold/engine/queue
//	# test: TestLine.*
//	diff --git a/engine/queue/queue.go b/engine/queue/queue.go
//	...
//
// It fails if a fault goes unnoticed, no longer applies or does not compile,
// and if its test is red without it: such a test shows nothing. Test files may
// be part of a fault, but then it is the test that was made blind.
//
// What it cannot show: that there are no other faults. The ones here are those
// that somebody once made, or that once went unnoticed.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.faults, "faults", filepath.Join("lab", "faults", "patches"), "the folder of *.patch files")
	flag.IntVar(&o.sample, "sample", 0, "plant only so many, chosen at random (default all)")
	flag.Uint64Var(&o.seed, "seed", 0, "choose the sample by this number (default by the clock)")
	flag.StringVar(&o.only, "run", "", "plant only those whose file name matches this regular expression")
	flag.DurationVar(&o.bound, "bound", 2*time.Minute, "a test that runs longer than this counts as red")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ".", o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "broken:", err)
		os.Exit(1)
	}
}

type options struct {
	faults string
	sample int
	seed   uint64
	only   string
	bound  time.Duration
}

// run plants the faults in a copy of the tree at root and writes a row for each.
func run(ctx context.Context, root string, o options, out io.Writer) error {
	all, err := readFaults(filepath.Join(root, o.faults))
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	chosen := slices.DeleteFunc(all, func(f fault) bool { return !only.MatchString(f.name) })
	if o.sample > 0 && o.sample < len(chosen) {
		seed := cmp.Or(o.seed, uint64(time.Now().UnixNano()))
		fmt.Fprintf(out, "%d of %d faults, -seed %d\n", o.sample, len(chosen), seed)
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:o.sample]
	}
	if len(chosen) == 0 {
		return fmt.Errorf("there is nothing to plant in %s", o.faults)
	}
	temp, err := os.MkdirTemp("", "broken")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	t := tree{dir: filepath.Join(temp, "leasehold"), bound: o.bound}
	if err := t.copyFrom(ctx, root); err != nil {
		return err
	}
	noticed := 0
	for _, f := range chosen {
		start := time.Now()
		v, err := t.try(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if v.noticed {
			noticed++
		}
		fmt.Fprintf(out, "%-12s %5.1fs  %s: %s (%s)\n", v.word(), time.Since(start).Seconds(), f.name, f.what, v.why)
		if !v.noticed && v.said != "" {
			fmt.Fprintln(out, v.said)
		}
	}
	fmt.Fprintf(out, "%d of %d faults were noticed\n", noticed, len(chosen))
	if noticed < len(chosen) {
		return fmt.Errorf("%d faults were not noticed, or could not be planted", len(chosen)-noticed)
	}
	return nil
}
