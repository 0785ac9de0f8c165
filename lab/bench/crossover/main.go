// Command crossover measures from how many writers on a lock is faster than writing
// with a version column: 1 to 64 writers change one row of PostgreSQL, with nothing and
// with 5 ms of work between reading and writing.
//
//	go run ./lab/bench/crossover -write docs/choosing.md
//
// It writes the tables between the page's markers and draws them to plots beside it. A
// way that loses an update makes it fail.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crossover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	page := flag.String("write", "", "put the tables between the markers of this `file`, and the plots into plots/ beside it")
	window := flag.Duration("window", 200*time.Millisecond, "how long each way is measured in a round")
	rounds := flag.Int("rounds", 5, "how often the ways take turns")
	flag.Parse()

	results, err := measure(ctx, *window, *rounds, []int{1, 2, 4, 8, 16, 32, 64})
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Printf("%s\n\n%s\n", r.title, r.table())
	}
	if *page == "" {
		return nil
	}
	return write(*page, results, *window, *rounds)
}
