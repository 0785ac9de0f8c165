package main

import (
	"fmt"
	"slices"
	"time"

	"leasehold/lab/bench/harness"
)

// queueOf is what a hand-over costs where n clients wait. The first calls of a client
// cost more than those that follow, with sessions that compile their functions most of
// all, and a turn of 500 takes seconds: the window begins when that is over, and is long
// enough for everybody's turn.
func queueOf(id string, n int, unit string, columns []harness.Column) harness.Workload {
	const ms = time.Millisecond
	window := 4000 * ms
	if n > 100 {
		window *= 2
	}
	return harness.Cycling(harness.Workload{
		ID: fmt.Sprintf("%s-queue-%d", id, n), Title: fmt.Sprintf("a queue of %d distinct clients", n),
		Competitors: []string{harness.Us}, Once: true, SkipQuick: n > 100, Main: harness.P50, Lower: true,
		Columns: append(slices.Clone(columns), harness.Column{Key: harness.Renews, Head: "of these renewals"}),
		How: "Distinct clients in 4 processes, all in one queue, relayed, held 2 ms. The cost of a hand-over must not depend on the other waiters. " +
			"The window begins when all clients have been in the queue for a while. Renewals of waiting and holding claims are part of the " + unit + " and shown apart.",
	}, 4, harness.Load{Names: 1, Relay: true, Clients: n / 4, HoldMin: 2 * ms, HoldMax: 2 * ms, Settle: 25 * ms}, window, nil)
}

// withoutRenewals is what a hand-over itself costs on the wire.
func withoutRenewals(id string) func(*harness.Results) (harness.Stat, bool) {
	return func(r *harness.Results) (harness.Stat, bool) {
		all, ok := r.Figure(id, harness.Us, harness.Requests)
		renewals, ok2 := r.Figure(id, harness.Us, harness.Renews)
		v := all.Median - renewals.Median
		return harness.Stat{Median: v, Min: v, Max: v}, ok && ok2
	}
}
