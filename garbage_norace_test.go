//go:build !race

package leasehold

import (
	"context"
	"testing"

	"leasehold/engine/memlock"
)

// What a pair costs in garbage: each piece more is a piece that every caller pays. The
// race detector empties pools at random, so it is not counted there.
func TestAPairOfLockAndUnlockMakesLittleGarbage(t *testing.T) {
	c, err := New(memlock.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := testing.AllocsPerRun(1000, func() { mustUnlock(t, mustLock(t, c, "x")) }); n > 12 {
		t.Errorf("%v allocations, want 12 at most", n)
	}
}

// An event costs no memory of its own.
func TestAnObserverCostsNoAllocation(t *testing.T) {
	pair := func(o *Options) float64 {
		c, err := New(memlock.New(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return testing.AllocsPerRun(500, func() {
			l, err := c.Lock(context.Background(), "x")
			if err == nil {
				err = l.Unlock()
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	events := 0
	without, with := pair(nil), pair(&Options{Observer: func(Event) { events++ }})
	if with > without || events == 0 {
		t.Errorf("a pair made %v allocations with an observer and %v without (%d events)", with, without, events)
	}
}
