package migratelock

import (
	"context"
	"errors"
	"fmt"

	"leasehold"
)

// ErrRunning is returned by Do during another Do or Lock of the same Driver.
var ErrRunning = errors.New("the driver is locked already: make another Driver for another Migrate")

// Do calls fn under the lease, with a context that migrate has no place for: it bounds the
// waiting, and no migration begins after it has ended. fn calls the migrate.Migrate of this
// Driver:
//
//	err := d.Do(ctx, m.Up)
//	err := d.Do(ctx, func() error { return m.Steps(2) })
//
// Errors: those of leasehold.Client.Lock, and nothing was done; what fn returned, such as
// migrate.ErrNoChange; leasehold.ErrLost and leasehold.ErrUnknown as leasehold.Lease.Unlock
// returns them; the cause of ctx if that kept a migration from beginning; ErrRunning.
//
// After a loss or the end of ctx the migrate.Migrate counts as locked: close it, and make it
// anew.
func (d *Driver) Do(ctx context.Context, fn func() error) error {
	fail := func(err error) error { return fmt.Errorf("migratelock: do %q: %w", d.name, err) }
	lease, err := d.locks.Lock(ctx, d.name)
	if err != nil {
		return err
	}
	bound, cancel := lease.Bind(ctx)
	defer cancel()
	d.mu.Lock()
	if d.held != nil {
		d.mu.Unlock()
		return errors.Join(fail(ErrRunning), lease.Unlock())
	}
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
