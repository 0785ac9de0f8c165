package servers

import (
	"fmt"
	"os"
	"sync"
)

// Shared is one server for all tests of a package that neither restart it nor change its
// settings. Such a test leaves nothing there, or finds out by itself what is its own.
type Shared[S interface {
	Tail() string
	Close() error
}] struct {
	Start func() (S, error)

	once   sync.Once
	server S
	err    error
	runs   bool
}

// Server starts it for the first test that asks. A test that fails shows the last lines of
// its log.
func (s *Shared[S]) Server(t TB) S {
	t.Helper()
	s.once.Do(func() {
		s.server, s.err = s.Start()
		s.runs = s.err == nil
	})
	if s.err != nil {
		t.Fatalf("the server of all tests: %v", s.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", s.server.Tail())
		}
	})
	return s.server
}

// Around is m with the end of the server after the last test, for TestMain:
//
//	goleak.VerifyTestMain(shared.Around(m))
func (s *Shared[S]) Around(m Runner) Runner { return around[S]{m, s} }

// Runner is the part of testing.M that runs tests.
type Runner interface{ Run() int }

type around[S interface {
	Tail() string
	Close() error
}] struct {
	Runner
	shared *Shared[S]
}

func (a around[S]) Run() int {
	code := a.Runner.Run()
	if a.shared.runs {
		if err := a.shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the server of all tests:", err)
		}
	}
	return code
}
