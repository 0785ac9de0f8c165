package main

import (
	"strings"
	"testing"

	"leasehold/examples/internal/lockstest"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) { lockstest.Main(m, main) }

func TestSoldOutExactlyWithTheLock(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		lockstest.Runs(t, run, nil)
	})
}

func TestOversoldWithoutTheLock(t *testing.T) {
	lockstest.Runs(t, run, errOversold, "-way", "none")
}

// TestInADatabase: each way that takes from a table sells exactly what there is, and
// without any the same table is oversold.
func TestInADatabase(t *testing.T) {
	t.Setenv("LEASEHOLD_ENGINE", "")
	url := servers.Postgres(t, nil).URL("", "")
	for way, want := range map[string]error{"lock": nil, "version": nil, "statement": nil, "none": errOversold} {
		t.Run(way, func(t *testing.T) { lockstest.Runs(t, run, want, "-way", way, "-database", url) })
	}
}

func TestWhatNeedsADatabaseSaysSo(t *testing.T) {
	for _, way := range []string{"version", "statement", "hope"} {
		if err := run([]string{"-way", way}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "-way "+way) {
			t.Errorf("%s: %v", way, err)
		}
	}
}
