package main

import (
	"strings"
	"testing"

	"leasehold/examples/internal/lockstest"
)

func TestMain(m *testing.M) { lockstest.Main(m, main) }

func TestEveryFloorOnceWithTheLock(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		out := lockstest.Runs(t, run, nil, "-for", "2s")
		if strings.HasPrefix(out, "0 replies") {
			t.Error("nobody wrote anything")
		}
	})
}

func TestAFloorTwiceWithoutTheLock(t *testing.T) {
	// On a busy machine a second may pass without two who read the same last floor.
	for range 10 {
		if out := lockstest.Runs(t, run, errFloor, "-for", "1s", "-lock=false"); !strings.Contains(out, "given twice: 0") {
			return
		}
	}
	t.Error("no floor was given twice")
}
