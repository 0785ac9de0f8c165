package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold"
	"leasehold/leaseholdtest"
)

// recorder is a test of a user: it remembers what it was told to fail with.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	errors   []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// end is the end of the user's test: what it failed with.
func (r *recorder) end() []string {
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errors
}

func TestLosesOfManyNamesAtOnceDoNotDisturbEachOther(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		var leases []*leasehold.Lease
		for i := range 20 {
			l, err := locks.Lock(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		var wg sync.WaitGroup
		for i, l := range leases {
			wg.Go(func() {
				locks.Lose(fmt.Sprint(i))
				if l.Valid() || !errors.Is(context.Cause(l.Context()), leasehold.ErrLost) {
					t.Errorf("%d: valid %v, cause %v when its Lose returned", i, l.Valid(), context.Cause(l.Context()))
				}
			})
		}
		wg.Wait()
	})
}

func TestTwoLosesOfOneNameLoseItOnce(t *testing.T) {
	both(t, func(t *testing.T) {
		user := &recorder{TB: t}
		locks := leaseholdtest.New(user)
		l, err := locks.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				locks.Lose("x")
				if l.Valid() {
					t.Error("valid when Lose returned")
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took >= 10*time.Second {
			t.Errorf("it took %v", took)
		}
		// Whichever came second found that nobody holds it, and says so.
		if said := user.end(); len(said) != 1 || !strings.Contains(said[0], `Lose("x"): nobody holds it`) {
			t.Errorf("it failed with %q", said)
		}
	})
}

func TestReleaseOfABlockThatWasLostIsNoError(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		release := locks.Block("x")
		locks.Lose("x")
		l, err := locks.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatalf("not free: %v", err)
		}
		release()
		release()
		if !l.Valid() {
			t.Error("the release of the lost block took the name from its next holder")
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestALeaseOfOtherIsLostWhenLoseReturns(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		for _, label := range []string{"", "a worker"} {
			other := locks.Other().With(leasehold.LockOptions{Label: label})
			l, err := other.Lock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			locks.Lose("x")
			if l.Valid() || !errors.Is(context.Cause(l.Context()), leasehold.ErrLost) {
				t.Errorf("label %q: valid %v, cause %v", label, l.Valid(), context.Cause(l.Context()))
			}
			if err := l.Unlock(); !errors.Is(err, leasehold.ErrLost) {
				t.Errorf("label %q: Unlock: %v", label, err)
			}
			if l, err = other.TryLock(t.Context(), "x"); err != nil {
				t.Fatalf("label %q: not free: %v", label, err)
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The engine tells who joined, and that client has given the claim away.
func TestALeaseThatWasAdoptedIsLostWhenLoseReturns(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		for who, pair := range map[string][2]*leasehold.Client{
			"by other":  {locks.Client, locks.Other()},
			"of other":  {locks.Other(), locks.Client},
			"by itself": {locks.Client, locks.Client},
		} {
			l, err := pair[0].With(leasehold.LockOptions{Detached: true}).Lock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			handle, err := l.Detach()
			if err != nil {
				t.Fatal(err)
			}
			adopted, err := pair[1].Adopt(t.Context(), handle)
			if err != nil {
				t.Fatal(err)
			}
			locks.Lose("x")
			if adopted.Valid() || !errors.Is(context.Cause(adopted.Context()), leasehold.ErrLost) {
				t.Errorf("%s: valid %v, cause %v", who, adopted.Valid(), context.Cause(adopted.Context()))
			}
			if err := adopted.Unlock(); !errors.Is(err, leasehold.ErrLost) {
				t.Errorf("%s: Unlock: %v", who, err)
			}
		}
	})
}

func TestOtherHoldsWhatItWaitedForAfterLose(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		mine, err := locks.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		held := make(chan error)
		go func() {
			l, err := locks.Other().Lock(t.Context(), "x")
			if err == nil {
				err = l.Unlock()
			}
			held <- err
		}()
		<-mine.Contended()
		locks.Lose("x")
		if err := <-held; err != nil {
			t.Error(err)
		}
		if err := mine.Unlock(); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
	})
}

func TestATestMayEndWithTheEngineFailing(t *testing.T) {
	gone := errors.New("gone")
	for name, body := range map[string]func(t *testing.T, locks *leaseholdtest.Locks){
		"a lease is held": func(t *testing.T, locks *leaseholdtest.Locks) {
			if _, err := locks.Lock(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			locks.FailEngine(gone)
		},
		"it was unlocked in vain": func(t *testing.T, locks *leaseholdtest.Locks) {
			l, err := locks.Lock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			locks.FailEngine(gone)
			if err := l.Unlock(); !errors.Is(err, leasehold.ErrUnknown) {
				t.Error(err)
			}
		},
		"it was closed in vain": func(t *testing.T, locks *leaseholdtest.Locks) {
			if _, err := locks.Lock(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			locks.FailEngine(gone)
			if err := locks.Close(); !errors.Is(err, gone) {
				t.Errorf("Close: %v", err)
			}
		},
		"a caller waits": func(t *testing.T, locks *leaseholdtest.Locks) {
			locks.Block("x")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				locks.Lock(ctx, "x")
			}()
			synctest.Wait()
			locks.FailEngine(gone)
			cancel()
			<-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				user := &recorder{TB: t}
				body(t, leaseholdtest.New(user))
				if said := user.end(); len(said) > 0 {
					t.Errorf("it failed with %q", said)
				}
			})
		})
	}
}

func TestLoseOfANameNobodyHoldsFailsTheTest(t *testing.T) {
	both(t, func(t *testing.T) {
		user := &recorder{TB: t}
		locks := leaseholdtest.New(user)
		locks.Lose("x")
		if said := user.end(); len(said) != 1 || !strings.Contains(said[0], "nobody holds it") {
			t.Errorf("it failed with %q", said)
		}
	})
}

// Losing is what the engine tells, and what was told before the engine failed,
// or around it, still arrives.
func TestLoseWorksWhileTheEngineFails(t *testing.T) {
	both(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		l, err := locks.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		locks.FailEngine(errors.New("gone"))
		locks.Lose("x")
		if l.Valid() {
			t.Error("valid")
		}
	})
}
