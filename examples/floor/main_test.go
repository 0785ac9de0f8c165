package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"leasehold/examples/internal/lockstest"
	"leasehold/internal/fleet"
)

// TestMain lets the test binary be the processes of the fleet.
func TestMain(m *testing.M) {
	if fleet.Inside() {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEveryFloorOnceWithTheLock(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		var out strings.Builder
		if err := run([]string{"-for", "2s"}, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		t.Log(out.String())
		if strings.HasPrefix(out.String(), "0 replies") {
			t.Error("nobody wrote anything")
		}
	})
}

func TestAFloorTwiceWithoutTheLock(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-for", "3s", "-lock=false"}, &out)
	t.Log(out.String())
	if !errors.Is(err, errFloor) || strings.Contains(out.String(), "given twice: 0") {
		t.Fatalf("no floor was given twice: %v", err)
	}
}
