package optimistic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// These are the defaults of Options.
const (
	DefaultAttempts = 20
	DefaultPause    = 2 * time.Millisecond
	DefaultMaxPause = 250 * time.Millisecond
)

// Options are the bounds of an Update. Nil means the defaults.
type Options struct {
	// Attempts is how often Update reads and writes at most; 0 means DefaultAttempts.
	Attempts int

	// Pause and MaxPause bound the random pause after attempt n: it is between 0 and the
	// lesser of Pause x 2^(n-1) and MaxPause. 0 means DefaultPause and DefaultMaxPause.
	Pause, MaxPause time.Duration

	// Conflict reports whether an error of Read or Write means that another writer
	// prevented the write, so that another attempt is right. Nil means [Serialization].
	Conflict func(error) bool

	// Stats, unless nil, counts. Several callers may share one.
	Stats *Stats
}

// Row reads and writes one row. R has the columns that change needs, and the version.
type Row[R any] struct {
	Read func(ctx context.Context) (R, error)

	// Write writes new if the row still has old's version, and raises the version. It
	// returns false if the row has another version or is gone.
	Write func(ctx context.Context, old, new R) (bool, error)
}

// Update reads the row, lets change compute the new one and writes it. It repeats that
// until no other writer was faster, and returns the written row.
//
// Update returns a ConflictError when the attempts are used up or ctx ends in a pause. It
// returns the cause of ctx if ctx had ended before, and an error of change, Read or Write
// as it is, at once. Then nothing was written, unless the error is Write's.
func Update[R any](ctx context.Context, o *Options, row Row[R], change func(R) (R, error)) (R, error) {
	opts := o.withDefaults()
	if ctx.Err() != nil {
		return *new(R), context.Cause(ctx)
	}
	for attempt := 1; ; attempt++ {
		written, conflict, err := try(ctx, &opts, row, change)
		if !conflict {
			if err == nil {
				opts.Stats.updated()
			}
			return written, err
		}
		opts.Stats.conflicted()
		if attempt == opts.Attempts {
			opts.Stats.gaveUp()
			return *new(R), &ConflictError{Conflicts: attempt, Err: err}
		}
		if err := pause(ctx, opts.bound(attempt)); err != nil {
			opts.Stats.gaveUp()
			return *new(R), &ConflictError{Conflicts: attempt, Err: err}
		}
	}
}

// try makes one attempt. If it reports a conflict, err is the error of the database, if
// there was one.
func try[R any](ctx context.Context, o *Options, row Row[R], change func(R) (R, error)) (_ R, conflict bool, err error) {
	old, err := row.Read(ctx)
	if err != nil {
		return *new(R), o.Conflict(err), aborted(err)
	}
	next, err := change(old)
	if err != nil {
		return *new(R), false, err
	}
	written, err := row.Write(ctx, old, next)
	if err != nil {
		return *new(R), o.Conflict(err), aborted(err)
	}
	if !written {
		return *new(R), true, nil
	}
	return next, false, nil
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Attempts <= 0 {
		opts.Attempts = DefaultAttempts
	}
	if opts.Pause <= 0 {
		opts.Pause = DefaultPause
	}
	if opts.MaxPause <= 0 {
		opts.MaxPause = DefaultMaxPause
	}
	if opts.Conflict == nil {
		opts.Conflict = Serialization
	}
	return opts
}

// bound of the pause after an attempt.
func (o *Options) bound(attempt int) time.Duration {
	d := o.Pause
	for range attempt - 1 {
		if d >= o.MaxPause/2 {
			return o.MaxPause // and twice d may be beyond what a Duration can be
		}
		d *= 2
	}
	return min(d, o.MaxPause)
}

// pause waits for a random time up to bound: full jitter. Writers that met once would
// otherwise meet again after each pause.
func pause(ctx context.Context, bound time.Duration) error {
	t := time.NewTimer(rand.N(bound))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // both may have come: then there is no further attempt
		return context.Cause(ctx)
	}
	return nil
}

// ErrConflict is returned as a [ConflictError].
var ErrConflict = errors.New("conflict")

// ConflictError says that another writer was faster each time, and that nothing was
// written.
type ConflictError struct {
	Conflicts int   // how many attempts conflicted
	Err       error // the cause of ctx, the last error of the database, or nil
}

// Error returns the number of conflicts and what to do next.
func (e *ConflictError) Error() string {
	s := fmt.Sprintf("optimistic: nothing was written: %d conflicts with other writers; try later, allow more attempts, or lock", e.Conflicts)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

func (e *ConflictError) Unwrap() error { return e.Err }
