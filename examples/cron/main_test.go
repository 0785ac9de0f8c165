package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"leasehold/examples/fleet"
)

// TestMain lets the test binary be the machines of the fleet.
func TestMain(m *testing.M) {
	if fleet.Inside() {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOncePerTickWithMinHold(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-tick=300ms", "-ticks=3"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log(out.String())
}

func TestSeveralTimesPerTickWithoutMinHold(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-tick=300ms", "-ticks=3", "-min-hold=0"}, &out)
	t.Log(out.String())
	if !errors.Is(err, errNotOnce) {
		t.Fatalf("every tick ran once: %v", err)
	}
}

func TestOncePerMachineWithoutTheLock(t *testing.T) {
	var out strings.Builder
	err := run([]string{"-tick=300ms", "-ticks=1", "-lock=false"}, &out)
	t.Log(out.String())
	if !errors.Is(err, errNotOnce) || !strings.Contains(out.String(), "ran 5 times on 5 machines") {
		t.Fatalf("not once per machine: %v", err)
	}
}
