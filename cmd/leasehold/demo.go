package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leasehold"
	"leasehold/cmd/leasehold/internal/together"
	"leasehold/engine"
)

// drawing is the job that leasehold began with, to be watched: several processes
// draw rising ids from one file by reading the last, adding one and writing it
// back, with no pause; first without a lock, then with it.
type drawing struct {
	procs  int
	length time.Duration
}

func (a *app) demoCommand() *cobra.Command {
	var d drawing
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See what goes wrong without a lock, and not with one",
		Long: `Several processes draw rising ids from one file: each reads the last, adds one and
writes it back, without a pause. They do so first without a lock, then with a
lock on the chosen engine. The demo counts ids that were drawn twice.` + aboutSchedules,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case d.procs < 2 || d.procs > 64:
				return usageError("--procs %d is outside 2 to 64: give a number in between", d.procs)
			case d.length < 100*time.Millisecond || d.length > time.Hour:
				return usageError("--for %v is outside 100ms to 1h: give a time in between", d.length)
			}
			return untilAsked(cmd.Context(), func(ctx context.Context) error { return a.demo(ctx, d) })
		},
	}
	cmd.SuggestionsMinimumDistance = 2 // letters to be changed
	cmd.AddCommand(a.scheduleCommands()...)
	cmd.Flags().IntVar(&d.procs, "procs", 4, "how many processes draw ids")
	cmd.Flags().DurationVar(&d.length, "for", 3*time.Second, "how long they draw, each time")
	return cmd
}

func (a *app) demo(ctx context.Context, d drawing) error {
	rawURL, err := a.engineURL()
	if err != nil {
		return err
	}
	// An engine that does not work should say so now and not halfway.
	locks, err := a.open(ctx, leasehold.Options{FailFast: true})
	if err != nil {
		return err
	}
	scope := locks.Guarantees().Scope
	if err := locks.Close(); err != nil {
		return err
	}
	if scope == engine.ScopeProcess {
		return usageError("this engine excludes within one process only: give --engine another")
	}
	// The workers find it there: arguments are for everybody to read.
	if err := os.Setenv("LEASEHOLD_ENGINE", rawURL); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "leasehold-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return a.whileRead(ctx, func(ctx context.Context, out io.Writer) error { return a.drawTwice(ctx, out, d, dir) })
}

// drawTwice draws without a lock, then with it, and prints both tallies.
func (a *app) drawTwice(ctx context.Context, out io.Writer, d drawing, dir string) error {
	if _, err := fmt.Fprintf(out, "%d processes draw ids from one file, %v without a lock, then %v with one.\n", d.procs, d.length, d.length); err != nil {
		return err
	}
	without, err := a.draw(ctx, out, d, "without the lock", filepath.Join(dir, "without"), "")
	if err != nil {
		return err
	}
	with, err := a.draw(ctx, out, d, "with the lock", filepath.Join(dir, "with"), "leasehold-demo-"+filepath.Base(dir))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\nwithout the lock: %s\nwith the lock:    %s\n", without, with); err != nil {
		return err
	}
	if with.twice > 0 {
		return &exitError{codeFailed, fmt.Errorf("the lock did not exclude: %d ids were drawn twice", with.twice)}
	}
	return nil
}

// tally is what was drawn.
type tally struct {
	drawn, twice int
	first        time.Duration // until the first one drawn twice
	took         time.Duration
}

func (t tally) String() string {
	s := fmt.Sprintf("%d ids in %v, %d of them drawn before", t.drawn, t.took.Round(time.Millisecond), t.twice)
	if t.twice > 0 {
		s += fmt.Sprintf(" (the first after %v)", t.first.Round(time.Millisecond))
	}
	return s
}

// draw runs the workers once and counts. With a name they hold it.
func (a *app) draw(ctx context.Context, out io.Writer, d drawing, title, store, name string) (t tally, err error) {
	if err := os.WriteFile(store, fmt.Appendf(nil, "%0*d", storeWidth, 0), 0o600); err != nil {
		return t, err
	}
	screen, ok := a.out.(*os.File)
	live := ok && term.IsTerminal(int(screen.Fd()))
	var (
		seen  = map[string]bool{}
		start time.Time
		shown time.Time
	)
	err = together.Run(ctx, d.procs, []string{"demo-worker", "--for", d.length.String(), "--name", name, store}, func(id string) {
		now := time.Now()
		if start.IsZero() {
			start, shown = now, now
		}
		t.drawn++
		if seen[id] {
			if t.twice++; t.twice == 1 {
				t.first = now.Sub(start)
			}
		}
		seen[id] = true
		t.took = now.Sub(start)
		if now.Sub(shown) >= 500*time.Millisecond {
			shown = now
			if live {
				fmt.Fprintf(out, "\r%s: %s\x1b[K", title, t)
			} else {
				fmt.Fprintf(out, "%s: %s\n", title, t)
			}
		}
	})
	if live {
		fmt.Fprint(out, "\r\x1b[K")
	}
	if err == nil {
		err = ctx.Err()
	}
	return t, err
}

func (a *app) demoWorkerCommand() *cobra.Command {
	var length time.Duration
	var name string
	cmd := &cobra.Command{
		Use:    "demo-worker STORE",
		Short:  "One process of the demo (demo starts it itself)",
		Hidden: true,
		Args:   arguments(1, 1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !together.Inside() {
				return usageError("demo-worker is started by demo, not by hand")
			}
			return a.demoWork(cmd.Context(), args[0], name, length)
		},
	}
	cmd.Flags().DurationVar(&length, "for", time.Second, "how long")
	cmd.Flags().StringVar(&name, "name", "", "held while drawing; empty: nothing is")
	return cmd
}

func (a *app) demoWork(ctx context.Context, path, name string, length time.Duration) error {
	store, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	locks, err := a.open(ctx, leasehold.Options{Label: "demo"})
	if err != nil {
		return err
	}
	defer locks.Close()
	together.Begin()
	for end := time.Now().Add(length); time.Now().Before(end); {
		var id uint64
		if name == "" {
			id, err = drawID(store)
		} else {
			err = locks.Do(ctx, name, func(context.Context, *leasehold.Lease) error {
				id, err = drawID(store)
				return err
			})
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out, id); err != nil {
			return err // the parent is gone
		}
	}
	return nil
}

// storeWidth: always as many digits, so that a write replaces the whole.
const storeWidth = 20

// drawID reads the last id, adds one and writes it back. Two processes here at
// once draw the same id.
func drawID(store *os.File) (uint64, error) {
	var text [storeWidth]byte
	if _, err := store.ReadAt(text[:], 0); err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(string(text[:]), 10, 64)
	if err != nil {
		return 0, err
	}
	id++
	_, err = store.WriteAt(fmt.Appendf(nil, "%0*d", storeWidth, id), 0)
	return id, err
}
