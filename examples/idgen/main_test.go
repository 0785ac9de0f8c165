package main

import (
	"strings"
	"testing"

	"leasehold/examples/internal/lockstest"
)

func TestMain(m *testing.M) { lockstest.Main(m, main) }

func TestNoIDTwiceWithTheLock(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		out := lockstest.Runs(t, run, nil, "-for", "2s")
		if !strings.Contains(out, "none twice") || strings.HasPrefix(out, "0 ids") {
			t.Errorf("it says %q", out)
		}
	})
}

// Two seconds is the promise: if it takes longer, the job is too tame to show
// anything.
func TestADuplicateWithoutTheLock(t *testing.T) {
	lockstest.Runs(t, run, errDuplicate, "-for", "2s", "-lock=false")
}
