// Stock sells a limited stock from many processes and never one piece too
// many: reading what is left, charging the customer and writing what is left
// then happen under one lock.
//
//	go run ./examples/stock              # with the lock: sold out, exactly
//	go run ./examples/stock -lock=false  # without: oversold
//
// It prints what happened, and fails if more was sold than there was.
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
	"strings"
	"time"

	"leasehold"
	"leasehold/examples/internal/locks"
	"leasehold/internal/fleet"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("stock", flag.ExitOnError)
	lock := flags.Bool("lock", true, "hold the lock while selling")
	pieces := flags.Int("pieces", 200, "how many pieces there are")
	procs := flags.Int("procs", 8, "how many processes sell")
	flags.Parse(args)

	if fleet.Inside() {
		return work(*lock)
	}
	dir, err := os.MkdirTemp("", "stock")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return oversee(dir, *lock, *pieces, *procs, out)
}

// work is one process: sell until nothing is left.
func work(lock bool) error {
	ctx := context.Background()
	client, err := locks.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()

	fleet.Begin()
	for {
		var left int
		if lock {
			err = client.Do(ctx, "stock:42", func(ctx context.Context, l *leasehold.Lease) error {
				left, err = sell(ctx, l.Token())
				return err
			})
		} else {
			left, err = sell(ctx, 0)
		}
		if err != nil || left < 0 {
			return err
		}
	}
}

// shelf is the file that says how many pieces are left.
const shelf = "left"

// sell sells one piece and returns how many are left, or -1 if none was there.
// Two processes here at once sell the same piece.
func sell(ctx context.Context, token leasehold.Token) (left int, err error) {
	path := filepath.Join(fleet.Dir(), shelf)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if left, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || left == 0 {
		return -1, err
	}
	if err := charge(ctx); err != nil {
		return 0, err // the lease was lost meanwhile: this piece is not ours to sell
	}
	left--
	// A name of its own, then rename: nobody ever reads half a number.
	draft := fmt.Sprintf("%s.%d", path, fleet.Place())
	if err := os.WriteFile(draft, fmt.Appendln(nil, left), 0o600); err != nil {
		return 0, err
	}
	if err := os.Rename(draft, path); err != nil {
		return 0, err
	}
	fleet.Print("sold with token " + token.String())
	return left, nil
}

// charge takes the customer's money, which takes a moment.
func charge(ctx context.Context) error {
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errOversold = errors.New("more was sold than there was")

// oversee runs the processes and counts what they sell.
func oversee(dir string, lock bool, pieces, procs int, out io.Writer) error {
	if err := os.WriteFile(filepath.Join(dir, shelf), fmt.Appendln(nil, pieces), 0o600); err != nil {
		return err
	}
	sold, per := 0, make([]int, procs)
	args := []string{fmt.Sprintf("-lock=%t", lock)}
	err := fleet.Run(context.Background(), procs, dir, args, func(proc int, _ string) {
		sold++
		per[proc]++
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d pieces in stock, %d sold by %d processes; by process: %v\n", pieces, sold, procs, per)
	switch {
	case sold > pieces:
		return fmt.Errorf("%w: %d too many", errOversold, sold-pieces)
	case sold < pieces:
		return fmt.Errorf("only %d of %d pieces were sold", sold, pieces)
	}
	return nil
}
