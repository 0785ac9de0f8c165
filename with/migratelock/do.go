package migratelock

import (
	"context"
	"errors"

	"leasehold"
)

var (
	// ErrRunning is returned by Do during another Do or Lock of the same Driver, even if that
	// still waits.
	ErrRunning = errors.New("the driver is locked already: make another Driver for another Migrate")

	// ErrClosed is returned by a Do or Lock that still waited when the Driver was closed, and by a
	// Lock that still waited for the wrapped driver when its Do ended.
	ErrClosed = errors.New("the driver was closed")
)

// Do calls fn under the lease, with a context that migrate has no place for: it bounds the
// waiting, and no migration begins after it has ended. fn calls the migrate.Migrate of this
// Driver:
//
//	err := d.Do(ctx, m.Up)
//	err := d.Do(ctx, func() error { return m.Steps(2) })
//
// Errors: those of leasehold.Client.Lock, and nothing was done; what fn returned, such as
// migrate.ErrNoChange; leasehold.ErrLost and leasehold.ErrUnknown as leasehold.Lease.Unlock
// returns them; the cause of ctx if that kept a migration from beginning; ErrRunning; ErrClosed.
//
// After a loss or the end of ctx the migrate.Migrate counts as locked: close it, and make it
// anew.
func (d *Driver) Do(ctx context.Context, fn func() error) error {
	d.mu.Lock()
	if d.held != nil || d.taking {
		d.mu.Unlock()
		return d.wrap("do", ErrRunning)
	}
	lease, err := d.obtain(ctx)
	if err != nil {
		d.mu.Unlock()
		return err
	}
	bound, cancel := lease.Bind(ctx)
	defer cancel()
	d.hold(&hold{lease: lease, ctx: bound})
	d.mu.Unlock()

	over := func() error {
		d.mu.Lock()
		d.held, d.locked = nil, false
		d.mu.Unlock()
		return lease.Unlock()
	}
	returned := false
	defer func() {
		if !returned { // fn panicked: the others must not wait for the TTL
			over()
		}
	}()
	err = fn()
	returned = true
	// Every step that was refused says why already.
	if unlocked := over(); !errors.Is(err, leasehold.ErrLost) {
		err = errors.Join(err, unlocked)
	}
	return err
}
