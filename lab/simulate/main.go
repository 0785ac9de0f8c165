// Command simulate prints what clients cost an engine, and the simulation, by their number
// and by the number of names: whole fleets in virtual time, in one goroutine (package
// internal/sim).
//
//	go run ./lab/simulate
//	go run ./lab/simulate -most 1000 -for 10m
//
// Requests and renewals are what the core sends, counted; no server is involved. Time and
// memory are those of the simulation.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"leasehold/internal/sim"
)

func main() {
	most := flag.Int("most", 10_000, "the most clients and, times 100, the most leases")
	long := flag.Duration("for", 10*time.Minute, "virtual time of each run")
	flag.Parse()
	if err := run(os.Stdout, *most, *long); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// sizes are 1, 3, 10, 30 and so on, from 10 to most.
func sizes(most int) (ns []int) {
	for n := 10; n <= most; n *= 10 {
		ns = append(ns, n)
		if 3*n <= most {
			ns = append(ns, 3*n)
		}
	}
	return ns
}

func run(out io.Writer, most int, long time.Duration) error {
	fmt.Fprintln(out, "| run | clients | names | leases | claims at once | requests/s | renewals/s | largest batch | notifications/s | longest wait | real time | memory |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, n := range sizes(most) {
		if err := row(out, "one queue", sim.OneQueue(n, long)); err != nil {
			return err
		}
	}
	for _, n := range sizes(most) {
		if err := row(out, "leases", sim.Leases(100*n, 5*time.Minute, long)); err != nil {
			return err
		}
	}
	for _, n := range sizes(most / 10) {
		for _, names := range []int{n / 10, n, 10 * n} {
			if err := row(out, "all faults", sim.Fleet(1, sim.Notifies, n, names, long)); err != nil {
				return err
			}
		}
	}
	return nil
}

// row runs a Setup, and prints what it took.
func row(out io.Writer, name string, s sim.Setup) error {
	runtime.GC()
	var m runtime.MemStats
	begin := time.Now()
	r := sim.Measure(s, func() {
		runtime.GC()
		runtime.ReadMemStats(&m)
	})
	if r.Violation != nil {
		return fmt.Errorf("%s: %v", name, r.Violation)
	}
	each := func(n int) float64 { return float64(n) / s.For.Seconds() }
	fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %.1f | %.1f | %d | %.1f | %v | %v | %d MiB |\n", name, len(s.Clients), s.NameCount(), r.Grants, r.Claims,
		each(r.Requests), each(r.Renewals), r.Batch, each(r.Notifications), r.LongestWait.Round(time.Millisecond),
		time.Since(begin).Round(time.Millisecond), m.HeapAlloc>>20)
	return nil
}
