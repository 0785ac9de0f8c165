package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
	"leasehold/leaseholdtest"
	"leasehold/with/gocronlock"
)

func newLocker(t *testing.T, locks *leasehold.Client) *gocronlock.Locker {
	t.Helper()
	l, err := gocronlock.New(locks, gocronlock.Options{Every: time.Minute, Prefix: "jobs:"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// once runs a task at once in a scheduler, and returns what gocron heard of it.
func once(t *testing.T, task gocron.Task, o ...gocron.JobOption) error {
	t.Helper()
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 3)
	o = append(o, gocron.WithStartAt(gocron.WithStartImmediately()), gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { over <- nil }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { over <- err }),
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { over <- err }),
	))
	if _, err := s.NewJob(gocron.DurationJob(time.Hour), task, o...); err != nil {
		t.Fatal(err)
	}
	s.Start()
	err = <-over
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	return err
}

func TestALossEndsTheContextAndIsTheErrorOfTheTask(t *testing.T) {
	locks := leaseholdtest.New(t)
	task, o := newLocker(t, locks.Client).Job("n", func(ctx context.Context, token leasehold.Token) error {
		if token == 0 || !locks.Held("jobs:n") {
			t.Errorf("token %v; held: %v", token, locks.Held("jobs:n"))
		}
		locks.Lose("jobs:n")
		if cause := context.Cause(ctx); !errors.Is(cause, leasehold.ErrLost) {
			t.Errorf("the context ended with %v", cause)
		}
		return nil
	})
	if err := once(t, task, o...); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
}

func TestGocronHearsThatTheNameIsHeld(t *testing.T) {
	locks := leaseholdtest.New(t)
	defer locks.Block("jobs:n")()
	task, o := newLocker(t, locks.Client).Job("n", func(context.Context, leasehold.Token) error {
		t.Error("it ran")
		return nil
	})
	if err := once(t, task, o...); !errors.Is(err, leasehold.ErrHeld) {
		t.Error(err)
	}
}

func TestATaskWithoutItsLockDoesNotRun(t *testing.T) {
	l := newLocker(t, leaseholdtest.New(t).Client)
	task, _ := l.Job("n", func(context.Context, leasehold.Token) error {
		t.Error("it ran")
		return nil
	})
	if err := once(t, task); !errors.Is(err, gocronlock.ErrNoLock) {
		t.Error(err)
	}
	other := []gocron.JobOption{gocron.WithName("other"), gocron.WithDistributedJobLocker(l)}
	if err := once(t, task, other...); !errors.Is(err, gocronlock.ErrNoLock) {
		t.Error(err)
	}
}

// A host that unlocks twice, with a context that has ended, or never.
func TestUnlockWorksWithAnEndedContextAndTwice(t *testing.T) {
	synctest.Test(t, testUnlock)
}

func testUnlock(t *testing.T) {
	locks := leaseholdtest.New(t)
	l, err := gocronlock.New(locks.Client, gocronlock.Options{Every: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h, err := l.Lock(ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 2 {
		if err := h.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(60 * time.Millisecond)
	h, err = l.Lock(t.Context(), "n") // it waits for what is left of its own tick
	if err != nil {
		t.Fatal(err)
	}
	locks.Lose("n")
	if err := h.Unlock(t.Context()); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
	if _, err = l.Lock(t.Context(), "n"); err != nil { // and never unlocks
		t.Fatal(err)
	}
	if err := locks.Client.Close(); err != nil {
		t.Error(err)
	}
}

// After a loss before its task began, a hold must last until the task under it has ended,
// whichever goroutine of gocron unlocks it.
func TestAHoldLastsAsLongAsTheTaskUnderIt(t *testing.T) {
	locks := leaseholdtest.New(t)
	l, err := gocronlock.New(locks.Client, gocronlock.Options{Every: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := l.Lock(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	locks.Lose("n")
	good, err := l.Lock(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{leasehold.ErrLost, nil} { // two tasks; the first gets the lost hold
		task, _ := l.Job("n", func(ctx context.Context, _ leasehold.Token) error {
			if cause := context.Cause(ctx); !errors.Is(cause, want) {
				t.Errorf("the context says %v, want %v", cause, want)
			}
			if want == nil {
				unlocked := make(chan struct{})
				go func() {
					defer close(unlocked)
					if err := good.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				t.Cleanup(func() { <-unlocked })
				select {
				case <-ctx.Done():
					t.Error("the hold ended while its task ran")
				case <-unlocked:
					t.Error("Unlock returned while the task ran")
				case <-time.After(50 * time.Millisecond):
				}
			}
			return nil
		})
		if err := once(t, task); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := lost.Unlock(t.Context()); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
}

func TestNamesAndOptionsAreChecked(t *testing.T) {
	locks := leaseholdtest.New(t)
	l, err := gocronlock.New(locks.Client, gocronlock.Options{Every: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", strings.Repeat("n", 4096)} {
		if _, err := l.Lock(t.Context(), name); !errors.Is(err, engine.ErrName) {
			t.Errorf("%.5q: %v", name, err)
		}
		if _, err := gocronlock.NewElector(locks.Client, name, elect.Options{}); !errors.Is(err, engine.ErrName) {
			t.Errorf("%.5q: %v", name, err)
		}
	}
	if _, err := gocronlock.New(locks.Client, gocronlock.Options{}); err == nil || !strings.HasPrefix(err.Error(), "gocronlock: the option Every") {
		t.Error(err)
	}
}

func TestRunOfAnElectorReturnsAfterItsTasks(t *testing.T) {
	locks := leaseholdtest.New(t)
	e, err := gocronlock.NewElector(locks.Client, "leader", elect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none := e.Task(func(context.Context, leasehold.Token) error {
		t.Error("it ran without the lead")
		return nil
	})
	if err := once(t, none); !errors.Is(err, elect.ErrNotLeader) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx) }()
	for e.IsLeader(ctx) != nil {
		time.Sleep(time.Millisecond)
	}
	err = once(t, e.Task(func(ctx context.Context, token leasehold.Token) error {
		cancel()
		<-ctx.Done()
		select {
		case err := <-over:
			t.Error("Run returned before its task")
			over <- err
		case <-time.After(50 * time.Millisecond):
		}
		if token == 0 || !locks.Held("leader") {
			t.Error("the lead ended before the task")
		}
		return context.Cause(ctx)
	}))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := e.IsLeader(t.Context()); !errors.Is(err, elect.ErrNotLeader) {
		t.Error(err)
	}
}

// The call that finds the lease over calls the Observer itself, as on a machine that slept.
func TestTheObserverOfALossMayAskTheElector(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, *gocronlock.Elector){
		"IsLeader": func(t *testing.T, e *gocronlock.Elector) { _ = e.IsLeader(t.Context()) },
		"a task": func(t *testing.T, e *gocronlock.Elector) {
			_ = once(t, e.Task(func(context.Context, leasehold.Token) error { return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var slept atomic.Int64
			start := time.Now()
			clock := func() time.Duration { return time.Since(start) + time.Hour + time.Duration(slept.Load()) }
			var e *gocronlock.Elector
			observe := func(event leasehold.Event) {
				if event.Kind == leasehold.EventLost {
					_ = e.IsLeader(t.Context())
				}
			}
			store := memlock.NewStore(&memlock.Options{Clock: clock})
			locks, err := leasehold.New(&door.Engine{Engine: store.Engine(), Clock: clock}, &leasehold.Options{Observer: observe})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			if e, err = gocronlock.NewElector(locks, "leader", elect.Options{}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := make(chan error, 1)
			go func() { over <- e.Run(ctx) }()
			for e.IsLeader(ctx) != nil {
				time.Sleep(time.Millisecond)
			}
			slept.Store(int64(time.Hour))
			answered := make(chan bool)
			go func() { ask(t, e); close(answered) }()
			select {
			case <-answered: // whatever it says: the Elector may lead again by then
			case <-time.After(30 * time.Second): // a mutex that waits for itself: nothing else takes so long
				t.Fatal("the Observer waits for the call that called it")
			}
			cancel()
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		})
	}
}
