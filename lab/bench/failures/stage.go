package main

import (
	"fmt"
	"slices"
	"sync"
)

// stage is what package servers wants of a test. What cannot go on leaves by a
// panic, which play turns into its error.
type stage struct {
	mu       sync.Mutex
	cleanups []func()
}

// unable is a trial that could not be made: something is not installed, or failed
// to start.
type unable struct{ why string }

func (u unable) Error() string { return u.why }

func (s *stage) Helper()             {}
func (s *stage) Logf(string, ...any) {}
func (s *stage) Failed() bool        { return false }

func (s *stage) Skipf(format string, args ...any)  { panic(unable{fmt.Sprintf(format, args...)}) }
func (s *stage) Fatalf(format string, args ...any) { panic(unable{fmt.Sprintf(format, args...)}) }

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// must is for what prepares a trial.
func (s *stage) must(err error) {
	if err != nil {
		s.Fatalf("%v", err)
	}
}

// play runs f and then everything that was to be cleaned up, last first.
func play(f func(s *stage)) (err error) {
	s := &stage{}
	defer func() {
		for _, clean := range slices.Backward(s.cleanups) {
			clean()
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case unable:
			err = p
		default:
			panic(p)
		}
	}()
	f(s)
	return nil
}
