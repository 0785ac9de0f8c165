// Package migrate holds an old lock together with a lease while a fleet of programs
// changes from the one to the other.
//
// Old programs take the old lock, new programs take both with [Both]. So all exclude each
// other. When the last old program is gone, replace Both by [leasehold.Client.Do].
//
//	err := migrate.Both(ctx, locks, "orders", oldLock, func(ctx context.Context, l *leasehold.Lease) error {
//		return work(ctx, l.Token())
//	})
//
// # What it promises
//
// Work runs while both are held, and Both releases both before it returns. It takes the
// lease first and releases it last. New programs queue for the lease, so at most one of
// them at a time waits for the old lock. If Unlock of the old lock fails, the error says
// so, and that lock stays held until it ends by its own rules.
//
// # What it cannot promise
//
// The old lock keeps its holes. A program that loses it, as by an expiry, is not notified,
// and may work beside an old program. The lease and its token do not change that: no old
// program shows a token.
//
// Both is not re-entrant, even with LockOptions.Reentrant: a call inside work for the same
// name waits for the old lock that its caller holds, until ctx ends.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold"
)

// Lock is the old lock of one name. Both calls each method once, in one goroutine.
type Lock interface {
	// Lock waits until the lock is held or ctx ends. When it returns an error it has left
	// nothing behind.
	Lock(ctx context.Context) error

	// Unlock releases what Lock obtained, and nothing that another program holds.
	Unlock(ctx context.Context) error
}

// ReleaseWithin is how long the Unlock of the old lock may take. Its context does not end
// with the caller's.
const ReleaseWithin = 5 * time.Second

// Both runs work while it holds the lease of name and the old lock. The context of work
// ends with ctx and with the lease. The error joins those of work, of the old lock's Unlock
// and of the lease. LockOptions.Wait bounds the wait for the lease alone. The Lock of the
// old lock bounds its own.
//
// Errors: those of [leasehold.Client.Lock]; that of the old lock's Lock; the cause of the
// lease's end, without a call of work, if the lease ended while the old lock was waited
// for.
func Both(ctx context.Context, locks *leasehold.Client, name string, old Lock, work func(context.Context, *leasehold.Lease) error) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *leasehold.Lease) (err error) {
		if err := old.Lock(ctx); err != nil {
			return fmt.Errorf("the old lock of %q was not obtained: %w", name, err)
		}
		// Before the lease, and when work panics too: the next new program finds the old
		// lock free.
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseWithin)
			defer cancel()
			if failed := old.Unlock(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("the old lock of %q was not released: %w", name, failed))
			}
		}()
		// The old lock may have been waited for longer than the lease lasted.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return work(ctx, l)
	})
}
