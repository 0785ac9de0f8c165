// Package lockstest runs the test of an example on each kind of engine that it
// promises to work on.
package lockstest

import (
	"testing"

	"leasehold/internal/servers"
)

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
