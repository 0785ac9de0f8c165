// Idgen does the job that gave rise to leasehold. Several processes draw rising
// ids from one shared store: each reads the last, computes the next and
// writes it back, with no pause.
//
//	go run -C examples ./idgen              # with the lock: no id twice
//	go run -C examples ./idgen -lock=false  # without: stops at the first duplicate
//
// It prints what happened, and fails if an id was drawn twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"leasehold"
	"leasehold/examples/internal/locks"
	"leasehold/lab/servers/fleet"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "idgen:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("idgen", flag.ExitOnError)
	lock := flags.Bool("lock", true, "hold the lock while drawing an id")
	length := flags.Duration("for", 10*time.Second, "how long to draw")
	procs := flags.Int("procs", 4, "how many processes draw")
	flags.Parse(args)

	if fleet.Inside() {
		return work(*lock, *length)
	}
	dir, err := os.MkdirTemp("", "idgen")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return oversee(dir, *lock, *length, *procs, out)
}

// work is one process: draw ids until the time is up.
func work(lock bool, length time.Duration) error {
	ctx := context.Background()
	store, err := os.OpenFile(filepath.Join(fleet.Dir(), lastID), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := locks.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()

	fleet.Begin()
	for end := time.Now().Add(length); time.Now().Before(end); {
		var id uint64
		if lock {
			err = client.Do(ctx, "idgen", func(context.Context, *leasehold.Lease) error {
				id, err = draw(store)
				return err
			})
		} else {
			id, err = draw(store)
		}
		if err != nil {
			return err
		}
		fleet.Print(strconv.FormatUint(id, 10))
	}
	return nil
}

// lastID is the file that is the store.
const lastID = "last-id"

// width is that of the store: one number, always as many digits, so that a
// write replaces the whole of it.
const width = 20

// draw reads the last id, computes the next, writes it back. Two processes
// here at once draw the same id.
func draw(store *os.File) (uint64, error) {
	var text [width]byte
	if _, err := store.ReadAt(text[:], 0); err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(string(text[:]), 10, 64)
	if err != nil {
		return 0, err
	}
	id++
	_, err = store.WriteAt(fmt.Appendf(nil, "%0*d", width, id), 0)
	return id, err
}

var errDuplicate = errors.New("an id was drawn twice")

// oversee runs the processes and checks the ids they draw.
func oversee(dir string, lock bool, length time.Duration, procs int, out io.Writer) error {
	if err := os.WriteFile(filepath.Join(dir, lastID), fmt.Appendf(nil, "%0*d", width, 0), 0o600); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var (
		drawn     = map[string]int{} // by whom
		per       = make([]int, procs)
		start     = time.Now()
		duplicate string
	)
	args := []string{fmt.Sprintf("-lock=%t", lock), "-for", length.String()}
	err := fleet.Run(ctx, procs, dir, args, func(proc int, id string) {
		if duplicate != "" {
			return
		}
		if other, twice := drawn[id]; twice {
			duplicate = fmt.Sprintf("id %s was drawn by process %d and by process %d, after %v and %d ids",
				id, other, proc, time.Since(start).Round(time.Millisecond), len(drawn))
			stop()
			return
		}
		drawn[id] = proc
		per[proc]++
	})
	if duplicate != "" {
		fmt.Fprintln(out, duplicate)
		return errDuplicate
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d ids by %d processes in %v, none twice; by process: %v\n", len(drawn), procs, length, per)
	return nil
}
