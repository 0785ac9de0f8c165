package leasehold

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// bounded is context.WithTimeout for calls that are over long before: it makes
// no timer and no channel until somebody asks for Done. A pair on a local
// engine takes 5 % less time for it, and 6 pieces of memory of 17.
type bounded struct {
	context.Context // the caller's
	deadline        time.Time

	once  sync.Once
	stop  context.CancelFunc
	inner atomic.Pointer[context.Context] // once Done was asked for, or all is over
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
	b.once.Do(func() {
		inner, stop := context.WithDeadline(b.Context, b.deadline)
		b.stop = stop
		b.inner.Store(&inner)
	})
	return (*b.inner.Load()).Done()
}

// Err implements [context.Context]. From when Done was asked for it is that of
// what Done is of: package context panics where a parent is done without an
// error, and end makes it done before its deadline. Until then it goes by the
// clock.
func (b *bounded) Err() error {
	if inner := b.inner.Load(); inner != nil {
		return (*inner).Err()
	}
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
	b.once.Do(func() {
		b.stop = func() {}
		b.inner.Store(&b.Context)
	})
	b.stop()
}
