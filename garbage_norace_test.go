//go:build !race

package leasehold

import (
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
