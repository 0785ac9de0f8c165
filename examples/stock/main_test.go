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

func TestSoldOutExactlyWithTheLock(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		var out strings.Builder
		if err := run(nil, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		t.Log(out.String())
	})
}

func TestOversoldWithoutTheLock(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-lock=false"}, &out)
	t.Log(out.String())
	if !errors.Is(err, errOversold) {
		t.Fatalf("not oversold: %v", err)
	}
}
