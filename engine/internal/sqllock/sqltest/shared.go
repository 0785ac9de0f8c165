package sqltest

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"leasehold/lab/servers"
)

// Server is a private one.
type Server interface {
	Query(sql string) (string, error)
	URL(user, database string) string
	Close() error
}

// Shared is the server of all tests that neither restart it nor change its settings.
// Each has a database of its own there.
type Shared[S Server] struct {
	Start    func() (S, error)
	Programs []string // that it needs

	Server S // once Database was called

	once sync.Once
	err  error
	made atomic.Int64
}

// Database is the URL of an empty database.
func (s *Shared[S]) Database(t testing.TB) string {
	t.Helper()
	servers.Need(t, s.Programs...)
	s.once.Do(func() { s.Server, s.err = s.Start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	name := fmt.Sprint("test", s.made.Add(1))
	if _, err := s.Server.Query("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return s.Server.URL("", name)
}

// Main is TestMain: it ends the server, and fails if leaks finds something, which is
// goleak.Find.
func (s *Shared[S]) Main(m *testing.M, leaks func() error) {
	code := m.Run()
	if s.made.Load() > 0 {
		s.Server.Close()
	}
	if code == 0 {
		if err := leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
