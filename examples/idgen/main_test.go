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

func TestNoIDTwiceWithTheLock(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		var out strings.Builder
		if err := run([]string{"-for", "2s"}, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		t.Log(out.String())
		if !strings.Contains(out.String(), "none twice") || strings.HasPrefix(out.String(), "0 ids") {
			t.Errorf("it says %q", &out)
		}
	})
}

// Two seconds is the promise: if it takes longer, the job is too tame to show
// anything.
func TestADuplicateWithoutTheLock(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-for", "2s", "-lock=false"}, &out)
	t.Log(out.String())
	if !errors.Is(err, errDuplicate) {
		t.Fatalf("no duplicate in 2 s: %v", err)
	}
}
