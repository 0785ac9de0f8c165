package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"leasehold/examples/internal/lockstest"
	"leasehold/internal/fleet"
	"leasehold/internal/servers"
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
	err := run([]string{"-way", "none"}, &out)
	t.Log(out.String())
	if !errors.Is(err, errOversold) {
		t.Fatalf("not oversold: %v", err)
	}
}

// TestInADatabase: each way that takes from a table sells exactly what there is, and
// without any the same table is oversold.
func TestInADatabase(t *testing.T) {
	t.Setenv("LEASEHOLD_ENGINE", "")
	url := servers.Postgres(t, nil).URL("", "")
	for way, want := range map[string]error{"lock": nil, "version": nil, "statement": nil, "none": errOversold} {
		var out strings.Builder
		err := run([]string{"-way", way, "-database", url}, &out)
		t.Logf("%s: %s", way, &out)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", way, err, want)
		}
	}
}

func TestWhatNeedsADatabaseSaysSo(t *testing.T) {
	for _, way := range []string{"version", "statement", "hope"} {
		if err := run([]string{"-way", way}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "-way "+way) {
			t.Errorf("%s: %v", way, err)
		}
	}
}
