// Command growth measures whether a lock becomes slower or its store larger with use: a
// server that has seen very many pairs, names and renewals, beside a fresh one, in turns.
// And it measures what many machines cost a server.
//
//	go run ./lab/bench/growth -write docs/growth.md
//	go run ./lab/bench/growth -engines pglock,mysqllock -pairs 200000
//
// It writes the tables between the page's markers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var u use
	flag.IntVar(&u.Pairs, "pairs", 100_000, "pairs of lock and unlock on one name")
	flag.IntVar(&u.Names, "names", 100_000, "names, each locked and unlocked once")
	flag.IntVar(&u.Leases, "leases", 1000, "leases that are held for a while")
	flag.DurationVar(&u.Held, "held", 30*time.Second, "how long they are held, with a TTL of 3 s: each is renewed once a second")
	flag.IntVar(&u.Behind, "behind", 50_000, "pairs on one name behind a transaction that stays open, on databases")
	var f fleet
	flag.IntVar(&f.Machines, "machines", 100, "clients with connections of their own, which stand for 10,000 machines")
	flag.DurationVar(&f.Watched, "watched", 60*time.Second, "how long the server is watched while they hold, and while they wait")
	only := flag.String("engines", "", "only these, divided by commas (default all)")
	page := flag.String("write", "", "put the table between the markers of this `file`")
	flag.Parse()

	var rows []row
	var bills []bill
	for _, s := range stores() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		r, err := grow(ctx, s, u)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Println(r.line())
		rows = append(rows, r)
		b, err := weigh(ctx, s, f)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if b != (bill{name: s.name}) {
			fmt.Println(b.line())
			bills = append(bills, b)
		}
	}
	if *page == "" {
		return nil
	}
	return write(*page, rows, u, bills, f)
}
