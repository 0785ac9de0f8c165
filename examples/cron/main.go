// Cron runs a job once per tick across a fleet of machines, each of which has
// the same crontab and a clock that is a little off. The first machine takes
// the tick's name without waiting. The others find it held and go on.
//
//	go run -C examples ./cron               # with the lock: once per tick
//	go run -C examples ./cron -min-hold=0   # the job is short, the clocks differ: again and again
//	go run -C examples ./cron -lock=false   # without: once per machine
//
// The second line shows why MinHold exists. The job is done before the machine
// with the slowest clock asks, and that machine would find the name free. MinHold
// keeps the name taken longer than the clocks can differ, even over the end of the
// process. The tick is part of the name, so a MinHold longer than a tick
// does no harm: the next tick has a name of its own.
//
// The machines of one run are processes of this program. With an engine that
// reaches several machines, those that run this command at the same time are
// one fleet, and each tick runs on one of them:
//
//	LEASEHOLD_ENGINE=redis://host go run -C examples ./cron
//
// It prints what happened, and fails if a tick ran twice, or nowhere.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"leasehold"
	"leasehold/examples/internal/locks"
	"leasehold/lab/servers/fleet"
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
	from          time.Time
	tick, minHold time.Duration
	ticks, procs  int
}

func run(args []string, out io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("cron", flag.ExitOnError)
	flags.BoolVar(&s.lock, "lock", true, "take the tick's name before running the job")
	flags.TextVar(&s.from, "from", time.Time{}, "the first tick, such as 2026-08-01T03:00:00Z (default: soon)")
	flags.DurationVar(&s.tick, "tick", time.Second, "from one tick to the next")
	flags.IntVar(&s.ticks, "ticks", 5, "how many ticks")
	flags.DurationVar(&s.minHold, "min-hold", time.Minute, "how long a tick's name stays taken at least")
	flags.IntVar(&s.procs, "procs", 5, "how many machines")
	flags.Parse(args)

	if fleet.Inside() {
		return work(s)
	}
	if s.from.IsZero() {
		// A multiple of the tick, which is the same on every machine, with
		// time to start the processes. One that is late runs the tick late.
		s.from = time.Now().Truncate(s.tick).Add(2 * s.tick)
		args = append(slices.Clone(args), "-from", s.from.Format(time.RFC3339Nano))
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
	ctx := context.Background()
	client, err := locks.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	once := client.With(leasehold.LockOptions{MinHold: s.minHold})

	fleet.Begin()
	slow := time.Duration(fleet.Place()) * skew
	for i := range s.ticks {
		at := s.from.Add(time.Duration(i) * s.tick)
		tick := at.UTC().Format("2006-01-02T15:04:05.000Z")
		time.Sleep(time.Until(at.Add(slow)))
		if !s.lock {
			job(tick)
			continue
		}
		lease, err := once.TryLock(ctx, "report@"+tick)
		if errors.Is(err, leasehold.ErrHeld) {
			fleet.Print("held " + tick) // by another machine
			continue
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

// job must happen once per tick.
func job(tick string) { fleet.Print("ran " + tick) }

var errNotOnce = errors.New("a tick did not run exactly once")

// oversee runs the machines and counts the runs of each tick. A tick that ran
// on none of them, although each found it held, ran on another real machine.
// That is possible only if LEASEHOLD_ENGINE names an engine that reaches it.
func oversee(dir string, s settings, args []string, out io.Writer) error {
	runs := map[string]int{}
	err := fleet.Run(context.Background(), s.procs, dir, args, func(_ int, line string) {
		what, tick, _ := strings.Cut(line, " ")
		n := 0 // a tick that was held is one that there was
		if what == "ran" {
			n = 1
		}
		runs[tick] += n
	})
	if err != nil {
		return err
	}
	others := s.lock && os.Getenv("LEASEHOLD_ENGINE") != ""
	once := 0
	for _, tick := range slices.Sorted(maps.Keys(runs)) {
		n, where := runs[tick], ""
		if n == 0 && others {
			where = ": another machine's"
		}
		if n == 1 || where != "" {
			once++
		}
		fmt.Fprintf(out, "%s ran %d times on %d machines%s\n", tick, n, s.procs, where)
	}
	if once != s.ticks || len(runs) != s.ticks {
		return errNotOnce
	}
	return nil
}
