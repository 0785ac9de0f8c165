package optimistic_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/optimistic"
)

// cell is a row in memory.
type cell struct {
	mu    sync.Mutex
	value version
	reads int
}

type version struct{ n, version int }

func (c *cell) row() optimistic.Row[version] {
	return optimistic.Row[version]{
		Read: func(context.Context) (version, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reads++
			return c.value, nil
		},
		Write: func(_ context.Context, old, next version) (bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.value.version != old.version {
				return false, nil
			}
			c.value = version{next.n, old.version + 1}
			return true, nil
		},
	}
}

func increment(v version) (version, error) { v.n++; return v, nil }

func TestNoUpdateIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 32, 20
		var c cell
		var stats optimistic.Stats
		row := c.row()
		read := row.Read
		row.Read = func(ctx context.Context) (version, error) {
			v, err := read(ctx)
			time.Sleep(time.Millisecond) // so that others get between
			return v, err
		}
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					o := &optimistic.Options{Attempts: 10_000, Stats: &stats}
					if _, err := optimistic.Update(t.Context(), o, row, increment); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if c.value.n != writers*each || stats.Updates() != writers*each {
			t.Errorf("%d of %d are there, %d counted", c.value.n, writers*each, stats.Updates())
		}
		if stats.Conflicts() == 0 || stats.Updates()+stats.Conflicts() != int64(c.reads) || stats.GaveUp() != 0 {
			t.Errorf("%d reads, %d conflicts, %d gave up: this met no conflict, or miscounts", c.reads, stats.Conflicts(), stats.GaveUp())
		}
	})
}

// never is a row that somebody else always changed.
func never(c *cell) optimistic.Row[version] {
	row := c.row()
	row.Write = func(context.Context, version, version) (bool, error) { return false, nil }
	return row
}

func TestAttemptsAndPausesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		bounds := []time.Duration{10 * ms, 20 * ms, 40 * ms, 50 * ms, 50 * ms}
		longest, shortest := make([]time.Duration, len(bounds)), slices.Clone(bounds)
		for range 500 {
			var c cell
			var stats optimistic.Stats
			row := never(&c)
			var at []time.Time
			read := row.Read
			row.Read = func(ctx context.Context) (version, error) { at = append(at, time.Now()); return read(ctx) }
			_, err := optimistic.Update(t.Context(), &optimistic.Options{Attempts: 6, Pause: 10 * ms, MaxPause: 50 * ms, Stats: &stats}, row, increment)
			conflict, _ := errors.AsType[*optimistic.ConflictError](err)
			if !errors.Is(err, optimistic.ErrConflict) || conflict.Conflicts != 6 || len(at) != 6 {
				t.Fatalf("%d attempts: %v", len(at), err)
			}
			if stats.Conflicts() != 6 || stats.GaveUp() != 1 || stats.Updates() != 0 {
				t.Fatalf("counted %d, %d, %d", stats.Conflicts(), stats.GaveUp(), stats.Updates())
			}
			for i, bound := range bounds {
				pause := at[i+1].Sub(at[i])
				if pause > bound {
					t.Fatalf("pause %d is %v", i, pause)
				}
				longest[i], shortest[i] = max(longest[i], pause), min(shortest[i], pause)
			}
		}
		for i, bound := range bounds { // 1 in 10^23 to see none in a tenth of it
			if longest[i] < bound*9/10 || shortest[i] > bound/10 {
				t.Errorf("pause %d was %v to %v, of 0 to %v: no full jitter", i, shortest[i], longest[i], bound)
			}
		}
	})
}

// TestACallerThatLeavesInAPauseGaveUp, and is counted once each time.
func TestACallerThatLeavesInAPauseGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cell
		var stats optimistic.Stats
		for n := range int64(3) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond) // passes in the first pause, or before it is over
			_, err := optimistic.Update(ctx, &optimistic.Options{Attempts: 100, Pause: time.Hour, MaxPause: time.Hour, Stats: &stats}, never(&c), increment)
			cancel()
			if !errors.Is(err, optimistic.ErrConflict) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Update: %v; want a conflict, and the context's end", err)
			}
			if stats.GaveUp() != n+1 || stats.Conflicts() != n+1 || stats.Updates() != 0 {
				t.Errorf("counted %d who gave up, %d conflicts, %d updates; want %d, %[4]d, 0", stats.GaveUp(), stats.Conflicts(), stats.Updates(), n+1)
			}
		}
	})
}

// TestAnErrorIsNotCounted: neither a conflict nor an update, of Read, change or Write.
func TestAnErrorIsNotCounted(t *testing.T) {
	broken := errors.New("broken")
	for what, row := range map[string]optimistic.Row[version]{
		"Read": {Read: func(context.Context) (version, error) { return version{}, broken }},
		"Write": {
			Read:  func(context.Context) (version, error) { return version{}, nil },
			Write: func(context.Context, version, version) (bool, error) { return false, broken },
		},
	} {
		var stats optimistic.Stats
		if _, err := optimistic.Update(t.Context(), &optimistic.Options{Stats: &stats}, row, increment); !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
		if stats.GaveUp()+stats.Conflicts()+stats.Updates() != 0 {
			t.Errorf("%s: counted %d who gave up, %d conflicts, %d updates; want none", what, stats.GaveUp(), stats.Conflicts(), stats.Updates())
		}
	}
}

// TestABoundThatCannotDoubleForEver: 2 ms doubled 200 times is no Duration.
func TestABoundThatCannotDoubleForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cell
		began := time.Now()
		optimistic.Update(t.Context(), &optimistic.Options{Attempts: 200}, never(&c), increment)
		if took := time.Since(began); took > 200*optimistic.DefaultMaxPause || took < 50*optimistic.DefaultMaxPause {
			t.Errorf("200 attempts took %v", took)
		}
	})
}

func TestTheEndOfTheContextEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the customer has gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		var c cell
		began := time.Now()
		o := &optimistic.Options{Attempts: 1 << 30, Pause: time.Hour, MaxPause: time.Hour}
		_, err := optimistic.Update(ctx, o, never(&c), increment)
		if !errors.Is(err, gone) || !errors.Is(err, optimistic.ErrConflict) {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestNoAttemptAfterTheContext: not the first, and none because the pause was over in the
// same moment. Read and Write need not look at their context.
func TestNoAttemptAfterTheContext(t *testing.T) {
	opts := &optimistic.Options{Pause: 1, MaxPause: 1}
	for range 100 { // select would choose one of two that are ready
		ctx, cancel := context.WithCancelCause(t.Context())
		closed := errors.New("closed")
		var c cell
		row := never(&c)
		row.Write = func(context.Context, version, version) (bool, error) { cancel(closed); return false, nil }
		if _, err := optimistic.Update(ctx, opts, row, increment); !errors.Is(err, closed) || !errors.Is(err, optimistic.ErrConflict) || c.reads != 1 {
			t.Fatalf("ended in the first attempt: %v after %d reads", err, c.reads)
		}
		if _, err := optimistic.Update(ctx, opts, row, increment); err != closed || c.reads != 1 {
			t.Fatalf("ended before: %v after %d reads", err, c.reads)
		}
	}
}

// TestTheLongestPause that a Duration can be is a pause, not a panic.
func TestTheLongestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := optimistic.Update(ctx, &optimistic.Options{Pause: math.MaxInt64, MaxPause: math.MaxInt64}, never(&cell{}), increment)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var c cell
		row := never(&c)
		row.Write = func(context.Context, version, version) (bool, error) {
			if c.reads == 2 { // twice the first bound is no Duration
				stop()
			}
			return false, nil
		}
		if _, err := optimistic.Update(ctx, &optimistic.Options{Pause: 1 << 62, MaxPause: math.MaxInt64}, row, increment); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestAnErrorOfChangeWritesNothing(t *testing.T) {
	var c cell
	soldOut := errors.New("sold out")
	_, err := optimistic.Update(t.Context(), nil, c.row(), func(v version) (version, error) { return v, soldOut })
	if err != soldOut || c.value != (version{}) || c.reads != 1 {
		t.Fatalf("%v, %+v, %d reads", err, c.value, c.reads)
	}
}

type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

// TestWhichErrorsAreTriedAgain: a write whose answer was lost may have been made, and
// made again it would count twice.
func TestWhichErrorsAreTriedAgain(t *testing.T) {
	for _, test := range []struct {
		err   error
		again bool
	}{
		{state("40001"), true},
		{state("40P01"), true},
		{fmt.Errorf("commit: %w", state("40001")), true},
		{state("23505"), false},
		{errors.New("connection reset"), false},
	} {
		for _, where := range []string{"read", "write"} {
			t.Run(where+" "+test.err.Error(), func(t *testing.T) {
				var c cell
				row, failed := c.row(), false
				once := func() error {
					if failed {
						return nil
					}
					failed = true
					return test.err
				}
				read, write := row.Read, row.Write
				if where == "read" {
					row.Read = func(ctx context.Context) (version, error) {
						if err := once(); err != nil {
							return version{}, err
						}
						return read(ctx)
					}
				} else {
					row.Write = func(ctx context.Context, old, next version) (bool, error) {
						if err := once(); err != nil {
							return false, err
						}
						return write(ctx, old, next)
					}
				}
				v, err := optimistic.Update(t.Context(), nil, row, increment)
				if test.again && (err != nil || v.n != 1) || !test.again && err != test.err {
					t.Fatal(v, err)
				}
			})
		}
	}
}

type result struct {
	n   int64
	err error
}

func (r result) RowsAffected() (int64, error) { return r.n, r.err }

type tag int64

func (t tag) RowsAffected() int64 { return int64(t) }

func TestChanged(t *testing.T) {
	bad := errors.New("bad")
	type outcome struct {
		changed, failed bool
	}
	check := func(why string, want outcome) func(bool, error) {
		return func(changed bool, err error) {
			if (outcome{changed, err != nil}) != want {
				t.Errorf("%s: %v, %v", why, changed, err)
			}
		}
	}
	for n, want := range []outcome{{false, false}, {true, false}, {false, true}} {
		check(fmt.Sprint("database/sql ", n), want)(optimistic.Changed(result{n: int64(n)}, nil))
		check(fmt.Sprint("pgx ", n), want)(optimistic.ChangedPgx(tag(n), nil))
	}
	check("error", outcome{false, true})(optimistic.Changed(nil, bad))
	check("error of pgx", outcome{false, true})(optimistic.ChangedPgx(tag(1), bad))
	check("no count", outcome{false, true})(optimistic.Changed(result{1, bad}, nil))
}

// TestDefaults: nil Options are bounded too.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cell
		_, err := optimistic.Update(t.Context(), nil, never(&c), increment)
		if conflict, ok := errors.AsType[*optimistic.ConflictError](err); !ok || conflict.Conflicts != optimistic.DefaultAttempts {
			t.Fatal(err)
		}
	})
}
