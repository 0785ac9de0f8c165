package leasehold

import (
	"context"
	"sync"
	"time"
)

// bounded is context.WithTimeout for calls that are over long before: it makes
// neither a timer nor a channel until somebody asks for Done. A timer that is
// set for each call wakes a thread for each call, which costs more than the rest
// of what this package does for one. It ends with a second context as well.
type bounded struct {
	context.Context // the caller's
	also            context.Context
	deadline        time.Time

	mu    sync.Mutex
	inner context.Context // once Done was asked for
	stop  context.CancelFunc
	err   error // final once set: what Err said, or Canceled from end on
}

func withBound(ctx, also context.Context, d time.Duration) *bounded {
	return new(bounded).begin(ctx, also, d)
}

// begin is withBound in memory that is there already. Never twice: somebody may
// still have contexts that were made from it.
func (b *bounded) begin(ctx, also context.Context, d time.Duration) *bounded {
	at := time.Now().Add(d)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	b.Context, b.also, b.deadline = ctx, also, at
	return b
}

// Deadline implements [context.Context].
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		ended := b.look() != nil // also may have: AfterFunc would tell a moment later
		inner, cancel := context.WithDeadline(b.Context, b.deadline)
		forget := context.AfterFunc(b.also, cancel)
		b.inner, b.stop = inner, func() { forget(); cancel() }
		if ended {
			b.stop()
		}
	}
	return b.inner.Done()
}

// Err implements [context.Context]. Once it is not nil, Done is closed for
// any caller from then on.
func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.look()
}

// look finds out whether it has ended. Called with mu held.
func (b *bounded) look() error {
	switch {
	case b.err != nil:
	case b.inner != nil:
		b.err = b.inner.Err()
	case b.Context.Err() != nil:
		b.err = b.Context.Err()
	case b.also.Err() != nil:
		b.err = context.Canceled
	case !time.Now().Before(b.deadline):
		b.err = context.DeadlineExceeded
	}
	return b.err
}

// Value implements [context.Context]. Contexts made from this one find inner by
// it, and end with it without a goroutine that waits.
func (b *bounded) Value(key any) any {
	b.mu.Lock()
	inner := b.inner
	b.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return b.Context.Value(key)
}

// end frees what Done made. The context has ended then.
func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner != nil {
		b.look() // it may have ended first, and somebody may have seen that
	}
	if b.err == nil {
		b.err = context.Canceled
	}
	if b.stop != nil {
		b.stop()
	}
}
