package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/lab/bench/harness"
)

const allocations = "allocations"

// validity measures Lease.Valid, which callers ask before every step.
func validity() harness.Workload {
	return harness.Workload{
		ID: "valid", Title: "Lease.Valid", Competitors: []string{"leasehold mem"}, Main: harness.P50, Lower: true,
		Columns: []harness.Column{{Key: harness.P50, Head: "per call", Unit: harness.Nanoseconds}, {Key: allocations, Head: "allocations per call"}},
		How:     "A million calls in a row on one lease, mean.",
		Measure: func(ctx context.Context, _ *harness.Stage, _ harness.Competitor) (s harness.Sample, err error) {
			c, err := leasehold.New(memlock.New(), nil)
			if err != nil {
				return s, err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			l, err := c.Lock(ctx, "valid")
			if err != nil {
				return s, err
			}
			const calls = 1_000_000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			for range calls {
				if !l.Valid() {
					return s, errors.New("not valid")
				}
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			s.Figures = map[string]float64{
				harness.P50: float64(took) / calls,
				// A handful belongs to the keeper, which renews meanwhile.
				allocations: float64(max(int64(after.Mallocs-before.Mallocs)-100, 0)) / calls,
			}
			return s, l.Unlock()
		},
	}
}
