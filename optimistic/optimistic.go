package optimistic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Defaults of Options.
const (
	DefaultAttempts = 20
	DefaultPause    = 2 * time.Millisecond
	DefaultMaxPause = 250 * time.Millisecond
)

// Options are the bounds of an Update. Nil means the defaults.
type Options struct {
	// Attempts is how often to read and write at most; 0: DefaultAttempts.
	Attempts int

	// The pause after attempt n is random, between 0 and the lesser of
	// Pause x 2^(n-1) and MaxPause; 0: DefaultPause, DefaultMaxPause.
	Pause, MaxPause time.Duration

	// Conflict says of an error of Read or Write that nothing was written because of
	// somebody else, so that another attempt is right. Nil: [Serialization].
	Conflict func(error) bool

	// Stats, unless nil, counts. Several callers may share one.
	Stats *Stats
}

// Row is how one row is read and written. R has the columns that change needs, and the
// version.
type Row[R any] struct {
	Read func(ctx context.Context) (R, error)

	// Write writes new if the row still has old's version, and raises the version.
	// False: it has another, or the row is gone.
	Write func(ctx context.Context, old, new R) (bool, error)
}

// Update reads the row, has change compute the new one and writes it, again until nobody
// was faster. It returns what was written.
//
// Errors: a ConflictError when the attempts are used up or ctx ends in a pause; the cause
// of ctx if it had ended before; an error of change, Read or Write as it is, at once.
// Nothing was written then, unless the error is Write's.
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

// try is one attempt. With conflict, err is what the database said, if it said so by an
// error.
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

// pause waits for a random time up to bound: full jitter. Those who met once would
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

// ErrConflict is every [ConflictError].
var ErrConflict = errors.New("conflict")

// ConflictError says that somebody else was faster each time, and that nothing was
// written.
type ConflictError struct {
	Conflicts int   // how often
	Err       error // the cause of ctx, the database's last word, or nil
}

// Error says what to do next.
func (e *ConflictError) Error() string {
	s := fmt.Sprintf("optimistic: nothing written: %d conflicts with other writers; try later, give more attempts, or lock", e.Conflicts)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

func (e *ConflictError) Unwrap() error { return e.Err }
