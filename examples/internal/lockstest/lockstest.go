// Package lockstest runs the test of an example on each kind of engine that it
// promises to work on.
package lockstest

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"leasehold/lab/servers"
	"leasehold/lab/servers/fleet"
)

// Main is TestMain: it lets the test binary be the processes of the example's fleet.
func Main(m *testing.M, main func()) {
	if fleet.Inside() {
		main()
		return
	}
	os.Exit(m.Run())
}

// Runs runs an example that must end with an error, nil for none, and is what it says.
func Runs(t *testing.T, run func([]string, io.Writer) error, want error, args ...string) string {
	t.Helper()
	var out strings.Builder
	err := run(args, &out)
	t.Log(out.String())
	if !errors.Is(err, want) {
		t.Fatalf("%v: %v, want %v", args, err, want)
	}
	return out.String()
}

// OnEveryEngine runs test with LEASEHOLD_ENGINE unset, which is what a newcomer
// has, and with a Redis server of its own, and fails if the server was not
// asked. The server is skipped, aloud, where none is installed.
func OnEveryEngine(t *testing.T, test func(t *testing.T)) {
	t.Run("no server", func(t *testing.T) {
		t.Setenv("LEASEHOLD_ENGINE", "")
		test(t)
	})
	t.Run("redis", func(t *testing.T) { OnRedis(t, test) })
}

// OnRedis runs test with a Redis server of its own as LEASEHOLD_ENGINE, and
// fails if the server was not asked.
func OnRedis(t *testing.T, test func(t *testing.T)) {
	s := servers.Redis(t, nil)
	t.Setenv("LEASEHOLD_ENGINE", "redis://"+s.Addr)
	test(t)
	if _, err := s.Info("cmdstat_evalsha"); err != nil {
		t.Errorf("LEASEHOLD_ENGINE was not used: the server ran no script: %v", err)
	}
}
