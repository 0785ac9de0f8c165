//go:build !race

package metrics_test

import (
	"testing"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/metrics"
)

// The race detector empties pools at random, so nothing is counted there.
func TestACountCostsNoAllocation(t *testing.T) {
	pair := func(newClient func() (*leasehold.Client, error)) float64 {
		c, err := newClient()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return testing.AllocsPerRun(500, func() {
			l, err := c.Lock(t.Context(), "x")
			if err == nil {
				err = l.Unlock()
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	without := pair(func() (*leasehold.Client, error) { return leasehold.New(memlock.New(), nil) })
	for _, o := range []metrics.Options{{}, {NameOf: func(s string) string { return s }}, {Record: func(metrics.Record) {}}} {
		if with := pair(func() (*leasehold.Client, error) { return newMetrics(t, o).Client(memlock.New(), "memory", nil) }); with > without {
			t.Errorf("a pair makes %v allocations counted and %v without", with, without)
		}
	}
}
