package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"leasehold"
	"leasehold/engine"
)

// DefaultWait is how long Lock waits if Options.Wait is zero.
const DefaultWait = 10 * time.Second

// Options are the choices of a Driver. Nil means the defaults.
type Options struct {
	// Wait bounds the waiting of Lock, which has no context. It must be shorter than LockTimeout
	// of migrate.Migrate (15 s): migrate gives up there, and a lease that came later would stay
	// until Close. Do does not wait here, but as long as its context lasts. Default DefaultWait.
	Wait time.Duration

	// OwnLock takes the lock of the wrapped driver too, after the lease. Choose it while
	// processes without leasehold migrate the same database. It also stops the next process while
	// a connection of the last one lives. The wrapped driver may wait without a bound, and migrate
	// gives up after its LockTimeout. Do then gives the lease back, and this lock, even if it
	// comes after that. Without Do they stay until Close. Until the wrapped driver has answered,
	// this Driver refuses the next Do or Lock.
	//
	// Do not choose it through PgBouncer in transaction mode:
	// a lock of a session is taken and given back on different sessions there.
	OwnLock bool
}

// Driver is a database.Driver whose lock is leasehold's. Everything else is the wrapped
// driver's. One Driver is for one migrate.Migrate.
type Driver struct {
	database.Driver
	locks *leasehold.Client
	name  string
	o     Options

	mu     sync.Mutex
	stop   context.CancelCauseFunc // ends a Do's or Lock's waiting for the lease; nil: none waits
	held   *hold                   // nil: neither Do nor Lock goes on
	gone   *hold                   // of a Do that ended between Lock and Unlock, until the next Lock
	taking bool                    // a Lock takes the wrapped driver's lock
	locked bool                    // between Lock and Unlock
}

// hold is a lease, and until when migrations may begin under it.
type hold struct {
	lease *leasehold.Lease
	ctx   context.Context // ends with the lease, and with the context of Do
	own   bool            // Lock took it, and Unlock gives it back; otherwise Do does
	over  bool            // Do has ended
	begun bool            // a migration was begun under it:
	at    int             // its version, which SetVersion marked dirty
}

var _ database.Driver = (*Driver)(nil)

// New wraps a driver. All processes that migrate one database give the same name, and the
// processes of another database another one. TTL and the other choices are those of locks
// (leasehold.Client.With), except for Wait. It returns engine.ErrName for a name that cannot be
// locked, which has 1 to engine.MaxName bytes of UTF-8, and an error for a negative Wait.
func New(d database.Driver, locks *leasehold.Client, name string, o *Options) (*Driver, error) {
	if d == nil || locks == nil {
		return nil, errors.New("migratelock: no driver or no client: give both")
	}
	if err := engine.CheckName(name); err != nil {
		return nil, fmt.Errorf("migratelock: %q: %w", name, err)
	}
	lo := locks.LockOptions()
	lo.Wait = 0 // Lock has its own, and Do waits as long as its context lasts
	w := &Driver{Driver: d, locks: locks.With(lo), name: name}
	if o != nil {
		w.o = *o
	}
	if w.o.Wait < 0 {
		return nil, fmt.Errorf("migratelock: %q: Wait %v is negative: leave it out for %v", name, w.o.Wait, DefaultWait)
	}
	if w.o.Wait == 0 {
		w.o.Wait = DefaultWait
	}
	return w, nil
}

// Open opens the wrapped driver, and wraps what it opened with the same lock. So a Driver can be
// registered (database.Register) and chosen by URL. The URL is passed on unchanged.
func (d *Driver) Open(url string) (database.Driver, error) {
	opened, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return New(opened, d.locks, d.name, &d.o)
}

// Lock obtains the lease, as migrate calls it before it reads the version. Under Do it only
// joins the lease of Do.
//
// Errors: database.ErrLocked if this Driver is locked already, or another Do or Lock of it waits,
// and together with leasehold.ErrHeld if somebody else holds the name for Wait; ErrClosed; the
// others of leasehold.Client.Lock. An error of the wrapped driver (Options.OwnLock) gives the lease back.
func (d *Driver) Lock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked || d.taking {
		return database.ErrLocked
	}
	if d.held == nil {
		ctx, cancel := context.WithTimeout(context.Background(), d.o.Wait)
		defer cancel()
		lease, err := d.obtain(ctx)
		switch {
		case errors.Is(err, leasehold.ErrHeld), errors.Is(err, ErrRunning):
			return fmt.Errorf("%w: %w", database.ErrLocked, err)
		case err != nil:
			return err
		}
		d.held = &hold{lease: lease, ctx: lease.Context(), own: true}
	} else if err := d.held.lost(); err != nil {
		return d.wrap("lock", err)
	}
	if d.o.OwnLock {
		if err := d.take(); err != nil {
			return err
		}
	}
	d.locked, d.gone = true, nil
	return nil
}

// take takes the wrapped driver's lock under d.held, with d.mu held, which it lets go while that
// driver waits. Do and Close do not wait for it: the lock that comes after their end goes back.
func (d *Driver) take() error {
	under := d.held
	d.taking = true
	err := func() error {
		d.mu.Unlock()
		defer d.mu.Lock() // also after a panic of that driver
		return d.Driver.Lock()
	}()
	d.taking = false
	switch {
	case d.held != under:
		if err == nil {
			err = d.Driver.Unlock()
		}
		return errors.Join(d.wrap("lock", ErrClosed), err)
	case err != nil:
		return errors.Join(err, d.release())
	}
	return nil
}

// obtain obtains the lease, with d.mu held, which it lets go while it waits. Another Do or Lock is
// refused meanwhile: the two would wait for each other.
func (d *Driver) obtain(ctx context.Context) (*leasehold.Lease, error) {
	if d.stop != nil {
		return nil, d.wrap("lock", ErrRunning)
	}
	ctx, d.stop = context.WithCancelCause(ctx)
	d.mu.Unlock()
	lease, err := d.locks.Lock(ctx, d.name)
	d.mu.Lock()
	closed := errors.Is(context.Cause(ctx), ErrClosed)
	d.stop(nil)
	d.stop = nil
	if err == nil && closed { // both at once
		return nil, errors.Join(d.wrap("lock", ErrClosed), lease.Unlock())
	}
	return lease, err
}

// Unlock gives the lease back, except for that of Do.
//
// Errors: leasehold.ErrLost if the lease was lost before; the migrate.Migrate counts as locked
// then, and must be made anew. database.ErrNotLocked; with Options.OwnLock those of the wrapped
// driver. If the engine does not confirm the release, Unlock returns nil: the migrations were
// locked to their end, and the name is free after the TTL.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.locked {
		return database.ErrNotLocked
	}
	d.locked = false
	var own error
	if d.o.OwnLock {
		own = d.Driver.Unlock()
	}
	return errors.Join(own, d.release())
}

// Close gives back a lease that nobody unlocked, and closes the wrapped driver. A Do or Lock that
// waits for the lease returns ErrClosed. A wrapped driver that waits for its own lock may close
// only after that: the lease is given back before.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.stop != nil {
		d.stop(ErrClosed)
	}
	err := d.release()
	d.locked = false
	d.mu.Unlock()
	return errors.Join(err, d.Driver.Close())
}

// Run runs a migration. It returns leasehold.ErrLost, and runs nothing, if the lease was lost
// before. A migration that has begun goes on at the server when the lease is lost: the interface
// of drivers has no context.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.lost("run"); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion writes the version. migrate marks a version as dirty when it begins it, and as
// clean when it has ended. After a loss SetVersion marks only one as clean: that which began
// under the lease, and which the database still says is dirty. Until then the mark has kept
// every other process away. It returns leasehold.ErrLost otherwise, and writes nothing.
func (d *Driver) SetVersion(version int, dirty bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.under(); h != nil {
		if lost := h.lost(); lost != nil {
			if dirty || !h.begun || h.at != version {
				return d.wrap("set version", lost)
			}
			if at, still, err := d.Driver.Version(); err != nil || at != version || !still {
				return errors.Join(d.wrap("set version", lost), err)
			}
		}
		h.begun, h.at = dirty, version
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop drops everything. It returns leasehold.ErrLost, and drops nothing, if the lease was lost.
func (d *Driver) Drop() error {
	if err := d.lost("drop"); err != nil {
		return err
	}
	return d.Driver.Drop()
}

// lost returns why nothing may begin. Without a Lock it is nil: the caller does without.
func (d *Driver) lost(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.under()
	if h == nil {
		return nil
	}
	return d.wrap(what, h.lost())
}

// under returns the hold that migrate works under, with d.mu held. A migrate that outlived its Do
// does not work under the next Do, whose Migrate has not locked yet.
func (d *Driver) under() *hold {
	if d.gone != nil {
		return d.gone
	}
	return d.held
}

// release ends what Lock began, with d.mu held. It returns a loss.
func (d *Driver) release() error {
	h := d.held
	if h == nil {
		return nil
	}
	if !h.own {
		return d.wrap("unlock", h.lost())
	}
	d.held = nil
	if err := h.lease.Unlock(); !errors.Is(err, leasehold.ErrUnknown) {
		return err
	}
	return nil
}

// lost returns why nothing may begin under the lease: it was lost, or Do or its context has
// ended. It asks the lease too: a process that was stopped may come here before a timer has
// ended the context.
func (h *hold) lost() error {
	switch {
	case h.over:
		return errOver
	case h.ctx.Err() != nil:
		return context.Cause(h.ctx)
	case !h.lease.Valid():
		return leasehold.ErrLost
	}
	return nil
}

func (d *Driver) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("migratelock: %s %q: %w", what, d.name, err)
}
