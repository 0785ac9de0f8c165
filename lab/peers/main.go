package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"leasehold/torture"
)

// options are the choices of a run.
type options struct {
	total    time.Duration // of a trial, at most
	only     *regexp.Regexp
	faults   []string
	strikes  int
	parallel int
	seed     uint64
	dir      string
	from     string
	page     string
}

func main() {
	if torture.Client(open) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.DurationVar(&o.total, "for", 5*time.Minute, "how long a trial lasts at most: it ends when it has seen enough")
	only := flags.String("only", "", "regular expression: the locks whose names match")
	kinds := flags.String("faults", strings.Join(faultNames, ","), "which faults")
	flags.IntVar(&o.strikes, "strikes", 25, "how many strikes with an effect are enough")
	flags.IntVar(&o.parallel, "parallel", 6, "how many trials are made at once")
	flags.Uint64Var(&o.seed, "seed", 28, "of every trial")
	flags.StringVar(&o.dir, "out", "", "folder for the results (default leasehold-peers-DATE)")
	flags.StringVar(&o.from, "from", "", "make no trial: read the results of this folder")
	flags.StringVar(&o.page, "write", "", "write the tables into this page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.dir = cmp.Or(o.from, o.dir, "leasehold-peers-"+time.Now().Format("20060102-150405"))
	o.faults = strings.Split(*kinds, ",")
	if i := slices.IndexFunc(o.faults, func(name string) bool { return faults[name] == nil }); i >= 0 {
		return fmt.Errorf("no fault is called %q: known are %s", o.faults[i], strings.Join(faultNames, ", "))
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if o.from == "" {
		if err := o.run(ctx, out); err != nil {
			return err
		}
	}
	r, err := read(filepath.Join(o.dir, resultsFile))
	if err != nil {
		return err
	}
	fmt.Fprint(out, r)
	if o.page != "" {
		return r.write(o.page)
	}
	return nil
}

// resultsFile has the outcome of a trial in each line.
const resultsFile = "trials.jsonl"

func read(file string) (r results, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); lines.More(); {
		var x outcome
		if err := lines.Decode(&x); err != nil {
			return nil, err
		}
		r = append(r, x)
	}
	return r, nil
}

// run makes the trials, several at once.
func (o options) run(ctx context.Context, out io.Writer) (err error) {
	var chosen []*peer
	stores := map[string]bool{}
	for _, p := range peers() {
		if o.only.MatchString(p.name) {
			chosen, stores[p.store] = append(chosen, p), true
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("-only %q matches no lock", o.only)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(o.dir, resultsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	at := sites{}
	end, err := at.start(stores)
	defer func() { err = errors.Join(err, end()) }()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	room := make(chan struct{}, o.parallel)
	for _, fault := range o.faults {
		for _, p := range chosen {
			for _, asked := range p.ways {
				room <- struct{}{}
				all.Go(func() {
					defer func() { <-room }()
					if ctx.Err() != nil {
						return
					}
					x := o.try(ctx, p, asked, fault, at[p.store])
					mu.Lock()
					defer mu.Unlock()
					if x.Failed != "" {
						failed = errors.Join(failed, fmt.Errorf("%s: %s", x.Dir, x.Failed))
					}
					failed = errors.Join(failed, json.NewEncoder(log).Encode(x))
					fmt.Fprintf(out, "%s: %d locks, %s, %v\n", x.Dir, x.Leases, x.cell(), x.Found)
				})
			}
		}
	}
	all.Wait()
	return errors.Join(failed, ctx.Err())
}
