// Command soak makes trials of locks (package torture) on private servers: every engine in
// turn, under every fault that comes here, for hours.
//
//	go run ./lab/soak                       # 8 hours
//	go run ./lab/soak -for 3m -only redis   # a part of it, for less
//
// A trial lasts ten minutes at most, and has servers of its own. It is judged at its end. The
// history of one without a violation is then removed. So neither memory nor disk grows with
// the hours. The folder -out gets a folder for each trial, with its report. The file
// trials.jsonl has a line for each trial, and summary.txt has the table of the end.
//
// With -strikes it makes trials of one fault at a time, until each has struck so many leases of
// each engine, and adds up what was seen (make strikes).
//
// Exit code 0: no violation was seen. 1: one was, or a trial failed. 77: none was seen, and
// an engine had too few faults or leases to show one. With -strikes violations of earlier runs
// count too, and the 77 is of each chosen engine and fault.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"leasehold/engines"
	"leasehold/torture"
)

// longest is how long a trial is, and shortest how long at least: every fault may come.
const (
	longest  = 10 * time.Minute
	shortest = 15 * time.Second
)

// options are the choices of a run.
type options struct {
	total   time.Duration
	only    *regexp.Regexp // of engines
	dir     string
	seed    uint64
	keep    bool // histories of trials without a violation
	ttl     time.Duration
	clients int

	// One fault at a time: see strike.
	strikes  int            // of each fault to each engine; 0: all faults at once, for total
	faults   *regexp.Regexp // which of them
	parallel int            // trials at once
	think    time.Duration  // of torture.Options
	again    bool           // what was seen of them before counts no more
	results  string         // the file of what was seen
	page     string         // that gets the table
}

func main() {
	if torture.Client(engines.Open) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := command(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		code = 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	os.Exit(code)
}

// The exit codes.
const (
	codeViolated = 1
	codeUsage    = 2
	codeVoid     = 77
)

func command(ctx context.Context, args []string, out io.Writer) (code int, err error) {
	var o options
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.DurationVar(&o.total, "for", 8*time.Hour, "how long clients lock, all trials together; with -strikes: in one trial")
	only := flags.String("only", "", "regular expression: the engines whose names match")
	flags.StringVar(&o.dir, "out", "", "folder for the results (default leasehold-soak-DATE)")
	flags.Uint64Var(&o.seed, "seed", 0, "of the first trial; each one after it has the next (default: a random one)")
	flags.BoolVar(&o.keep, "keep", false, "keep the history of every trial")
	flags.DurationVar(&o.ttl, "ttl", 0, "TTL of every lease (default 2s, or the least of the engine)")
	flags.IntVar(&o.clients, "clients", 4, "how many processes there are at once")
	flags.IntVar(&o.strikes, "strikes", 0, "one fault at a time, until each has struck so many leases")
	faults := flags.String("faults", "", "with -strikes, regular expression: which faults")
	flags.IntVar(&o.parallel, "parallel", 6, "with -strikes: how many trials are made at once, each for 10m or -for at most")
	flags.DurationVar(&o.think, "think", 400*time.Millisecond, "with -strikes: the longest pause between calls of a client to the engine itself")
	flags.BoolVar(&o.again, "again", false, "with -strikes: forget what earlier runs saw of the chosen engines and faults")
	flags.StringVar(&o.results, "results", "", "with -strikes: the file of what was seen, which a later run goes on with (default strikes.jsonl in -out)")
	flags.StringVar(&o.page, "write", "", "with -strikes: write the table into this page")
	if err := flags.Parse(args); err != nil {
		return codeUsage, err
	}
	o.dir = cmp.Or(o.dir, "leasehold-soak-"+time.Now().Format("20060102-150405"))
	if o.only, err = regexp.Compile(*only); err != nil {
		return codeUsage, err
	}
	if o.strikes == 0 {
		return run(ctx, o, out)
	}
	if o.faults, err = regexp.Compile(*faults); err != nil {
		return codeUsage, err
	}
	o.total = min(o.total, longest)
	o.seed = cmp.Or(o.seed, 28)
	o.results = cmp.Or(o.results, filepath.Join(o.dir, "strikes.jsonl"))
	failed, err := o.strike(ctx, out)
	if err != nil {
		return codeViolated, err
	}
	all, err := readCells(o.results)
	if err != nil {
		return codeViolated, err
	}
	fmt.Fprintf(out, "\n%s", all.table())
	if o.page != "" {
		err = all.write(o.page)
	}
	return all.code(o, failed), err
}
