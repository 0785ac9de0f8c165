// Cron runs a job once per tick across a fleet of machines, each of which has
// the same crontab and a clock that is a little off. Whoever comes first takes
// the tick's name without waiting; the others find it held and go on.
//
//	go run ./examples/cron               # with the lock: once per tick
//	go run ./examples/cron -min-hold=0   # the job is short, the clocks differ: again and again
//	go run ./examples/cron -lock=false   # without: once per machine
//
// The second line is why MinHold exists: the job is done before the machine
// with the slowest clock asks, and it would find the name free. MinHold keeps
// the name taken longer than the clocks can differ, even over the end of the
// process. The tick is part of the name, so that a MinHold longer than a tick
// does no harm: the next tick has a name of its own.
//
// It prints what happened, and fails if a tick did not run exactly once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"leasehold"
	"leasehold/engine/filelock"
	"leasehold/examples/fleet"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(1)
	}
}

// The fleet's clocks differ by skew from one machine to the next.
const skew = 20 * time.Millisecond

type settings struct {
	lock          bool
	tick, minHold time.Duration
	ticks, procs  int
}

func run(args []string, out io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("cron", flag.ExitOnError)
	flags.BoolVar(&s.lock, "lock", true, "take the tick's name before running the job")
	flags.DurationVar(&s.tick, "tick", time.Second, "from one tick to the next")
	flags.IntVar(&s.ticks, "ticks", 5, "how many ticks")
	flags.DurationVar(&s.minHold, "min-hold", time.Minute, "how long a tick's name stays taken at least")
	flags.IntVar(&s.procs, "procs", 5, "how many machines")
	flags.Parse(args)

	if fleet.Inside() {
		return work(s)
	}
	dir, err := os.MkdirTemp("", "cron")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return oversee(dir, s, args, out)
}

// work is one machine: wait for each tick by its own clock, then try.
func work(s settings) error {
	eng, err := filelock.New("locks", nil)
	if err != nil {
		return err
	}
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		return err
	}
	defer locks.Close()
	once := locks.With(leasehold.LockOptions{MinHold: s.minHold, Label: fmt.Sprintf("machine %d", fleet.Place())})

	fleet.Begin()
	slow := time.Duration(fleet.Place()) * skew
	start := time.Now().Add(slow)
	for tick := 1; tick <= s.ticks; tick++ {
		time.Sleep(time.Until(start.Add(time.Duration(tick) * s.tick)))
		if !s.lock {
			job(tick)
			continue
		}
		lease, err := once.TryLock(context.Background(), fmt.Sprintf("report@%d", tick))
		if errors.Is(err, leasehold.ErrHeld) {
			continue // another machine has this tick
		}
		if err != nil {
			return err
		}
		job(tick)
		if err := lease.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

// job is what is to happen once per tick.
func job(tick int) { fleet.Print(fmt.Sprint(tick)) }

var errNotOnce = errors.New("a tick did not run exactly once")

// oversee runs the machines and counts the runs of each tick.
func oversee(dir string, s settings, args []string, out io.Writer) error {
	runs := map[string]int{}
	err := fleet.Run(context.Background(), s.procs, dir, args, func(_ int, tick string) { runs[tick]++ })
	if err != nil {
		return err
	}
	once := 0
	for tick := 1; tick <= s.ticks; tick++ {
		n := runs[fmt.Sprint(tick)]
		fmt.Fprintf(out, "tick %d ran %d times on %d machines\n", tick, n, s.procs)
		if n == 1 {
			once++
		}
	}
	if once != s.ticks {
		return errNotOnce
	}
	return nil
}
