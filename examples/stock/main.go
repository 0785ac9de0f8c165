// Stock sells a limited stock from many processes and never one piece too
// many. A process reads the number, charges the customer and writes the new number
// under one lock.
//
//	go run -C examples ./stock              # with the lock: sold out, exactly
//	go run -C examples ./stock -way none    # without: oversold
//
// A database can do it without a lock, if the process takes the piece first and charges
// afterwards:
//
//	go run -C examples ./stock -way version   -database postgres://...  # package optimistic
//	go run -C examples ./stock -way statement -database postgres://...  # one UPDATE ... WHERE n > 0
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
	"time"

	"leasehold"
	"leasehold/examples/internal/locks"
	"leasehold/lab/servers/fleet"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("stock", flag.ExitOnError)
	way := flags.String("way", "lock", "how to sell: lock, none, version or statement")
	database := flags.String("database", "", "the `URL` of a PostgreSQL database that has the stock, instead of a file")
	pieces := flags.Int("pieces", 200, "how many pieces there are")
	procs := flags.Int("procs", 8, "how many processes sell")
	flags.Parse(args)

	ctx := context.Background()
	if fleet.Inside() {
		return work(ctx, *way, *database)
	}
	dir, err := os.MkdirTemp("", "stock")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *database == "" {
		err = fill(dir, *pieces)
	} else {
		var t *table
		if t, err = openTable(ctx, *database); err != nil {
			return err
		}
		defer t.close()
		defer t.drop(ctx)
		err = t.fill(ctx, *pieces)
	}
	if err != nil {
		return err
	}
	return oversee(ctx, dir, *pieces, *procs, []string{"-way", *way, "-database", *database}, out)
}

// shelf knows how many pieces are left.
type shelf interface {
	read(ctx context.Context) (left int, err error)
	write(ctx context.Context, left int) error
}

// work is one process: sell until nothing is left.
func work(ctx context.Context, way, database string) error {
	var s shelf = file{}
	var t *table
	if database != "" {
		var err error
		if t, err = openTable(ctx, database); err != nil {
			return err
		}
		defer t.close()
		s = t
	}
	var one func() (sold bool, err error)
	switch {
	case way == "lock":
		client, err := locks.Open(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		one = func() (sold bool, err error) {
			err = client.Do(ctx, "stock:42", func(ctx context.Context, l *leasehold.Lease) error {
				sold, err = sell(ctx, s)
				return err
			})
			return sold, err
		}
	case way == "none":
		one = func() (bool, error) { return sell(ctx, s) }
	case t == nil:
		return fmt.Errorf("-way %s needs -database, or say lock or none", way)
	case way == "version":
		one = func() (bool, error) { return takeAndCharge(ctx, t.takeByVersion) }
	case way == "statement":
		one = func() (bool, error) { return takeAndCharge(ctx, t.takeByStatement) }
	default:
		return fmt.Errorf("-way %s is unknown: lock, none, version or statement", way)
	}

	fleet.Begin()
	for {
		if sold, err := one(); err != nil || !sold {
			return err
		}
		fleet.Print("sold")
	}
}

// sell sells one piece, or none if nothing is left. Two processes here at once sell the
// same piece.
func sell(ctx context.Context, s shelf) (sold bool, err error) {
	left, err := s.read(ctx)
	if err != nil || left == 0 {
		return false, err
	}
	if err := charge(ctx); err != nil {
		return false, err // the lease was lost meanwhile: this piece is not ours to sell
	}
	return true, s.write(ctx, left-1)
}

// takeAndCharge charges for a piece that is taken already. Without a lock the charge
// must come second, or a customer would pay in each attempt. A process that dies in
// between has taken a piece that nobody paid for.
func takeAndCharge(ctx context.Context, take func(context.Context) (bool, error)) (sold bool, err error) {
	if sold, err = take(ctx); err != nil || !sold {
		return false, err
	}
	return true, charge(ctx)
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
func oversee(ctx context.Context, dir string, pieces, procs int, args []string, out io.Writer) error {
	sold, per := 0, make([]int, procs)
	err := fleet.Run(ctx, procs, dir, args, func(proc int, _ string) {
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
