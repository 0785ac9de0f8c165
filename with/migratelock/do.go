package migratelock

import (
	"context"
	"errors"
	"fmt"

	"leasehold"
)

var (
	// ErrRunning is returned by Do during another Do or Lock of the same Driver, even if that
	// still waits.
	ErrRunning = errors.New("the driver is locked already: make another Driver for another Migrate")

	// ErrClosed is returned by a Do or Lock that still waited when the Driver was closed, and by a
	// Lock that still waited for the wrapped driver when its Do ended.
	ErrClosed = errors.New("the driver was closed")

	// errOver is what migrate gets that goes on after the end of its Do.
	errOver = fmt.Errorf("%w: Do gave it back; fn must return after the calls of migrate that it began", leasehold.ErrLost)
)

// Do calls fn under the lease, with a context that migrate has no place for: it bounds the
// waiting, and no migration begins after it has ended. fn calls the migrate.Migrate of this
// Driver:
//
//	err := d.Do(ctx, m.Up)
//	err := d.Do(ctx, func() error { return m.Steps(2) })
//
// fn must return after the calls of migrate that it began. One that goes on begins no further
// migration, and returns leasehold.ErrLost. With Options.OwnLock Do waits for the migration that
// it is at. Close the Driver then: it cannot tell that call from one of another migrate.Migrate.
//
// Errors: those of leasehold.Client.Lock, and nothing was done; what fn returned, such as
// migrate.ErrNoChange; leasehold.ErrLost and leasehold.ErrUnknown as leasehold.Lease.Unlock
// returns them; the cause of ctx if that kept a migration from beginning; ErrRunning; ErrClosed.
// With Options.OwnLock also that of the wrapped driver's Unlock, if migrate did not call it.
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
	h := &hold{lease: lease, ctx: bound}
	d.held = h
	d.mu.Unlock()

	over := func() (own, unlocked error) {
		d.mu.Lock()
		locked := d.locked // migrate gave up on its Lock before it came, fn panicked, or migrate goes on
		if locked {
			d.gone = h
		}
		h.over, d.held, d.locked = true, nil, false
		d.mu.Unlock()
		if locked && d.o.OwnLock { // nobody else gives it back any more
			own = d.Driver.Unlock() // without d.mu: it waits for a migration that goes on
		}
		return own, lease.Unlock()
	}
	returned := false
	defer func() {
		if !returned { // fn panicked: the others must not wait for the TTL
			over()
		}
	}()
	err = fn()
	returned = true
	own, unlocked := over()
	if errors.Is(err, leasehold.ErrLost) {
		unlocked = nil // every step that was refused says why already
	}
	return errors.Join(err, own, unlocked)
}
