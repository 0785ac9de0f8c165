package gooselock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"leasehold"
	"leasehold/engine"
)

// ErrNotLocked is returned by Unlock and SessionUnlock if nothing is locked for that database
// or connection: each Lock has one Unlock.
var ErrNotLocked = errors.New("nothing is locked")

// Options are the choices of a Locker. The zero value is ready to use.
type Options struct {
	// TTL is how long others wait for a process that died in a migration. Default: that of
	// the Client.
	TTL time.Duration

	// Wait is how long a process waits for those that migrate before it, unless its context
	// ends sooner. Default 5 min. A negative value is refused.
	Wait time.Duration

	// Label is shown to anybody who inspects the queue. Default: that of the Client.
	Label string
}

// Locker lets one process at a time migrate a database. It is a lock.Locker and a
// lock.SessionLocker of goose, and is safe for concurrent use. Make one for each
// goose.Provider.
type Locker struct {
	locks *leasehold.Client
	name  string

	mu      sync.Mutex
	held    map[any][]*leasehold.Lease            // by *sql.DB or *sql.Conn, the oldest first
	running int                                   // functions of Run
	waiting map[*context.CancelCauseFunc]struct{} // ends the waiting of lock, one for each
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// New returns a Locker of the name, which stands for the database: all programs that migrate
// it must give the same one. It returns engine.ErrName for a name that cannot be locked, and
// an error for options out of their bounds.
func New(locks *leasehold.Client, name string, o Options) (*Locker, error) {
	fail := func(err error) (*Locker, error) {
		return nil, fmt.Errorf("gooselock: %q: %w", name, err)
	}
	if locks == nil {
		return fail(errors.New("there is no client: make one with leasehold.New"))
	}
	if err := engine.CheckName(name); err != nil {
		return fail(err)
	}
	if o.TTL != 0 {
		if err := locks.Guarantees().CheckTTL(o.TTL); err != nil {
			return fail(err)
		}
	}
	if o.Wait < 0 {
		return fail(fmt.Errorf("the option Wait (%v) is negative: leave it out for 5 min", o.Wait))
	}
	if o.Wait == 0 {
		o.Wait = 5 * time.Minute
	}
	own := locks.LockOptions() // With replaces them all
	// Reentrant, because a Provider with this Locker locks once more inside of Run.
	return &Locker{
		locks:   locks.With(leasehold.LockOptions{TTL: cmp.Or(o.TTL, own.TTL), Wait: o.Wait, Label: cmp.Or(o.Label, own.Label), Reentrant: true}),
		name:    name,
		held:    map[any][]*leasehold.Lease{},
		waiting: map[*context.CancelCauseFunc]struct{}{},
	}, nil
}

// Run runs fn under the lock. The context of fn ends with ctx or with the lease, whichever
// ends first; after a loss its cause is leasehold.ErrLost. Give it to every call of the
// Provider: goose then cancels the statement that runs and begins no further migration. fn
// runs even if nothing is pending, and may call several methods of the Provider.
//
// The error joins that of fn and the truth about the lock:
//
//   - nil: fn returned nil, and no other process migrated until then;
//   - leasehold.ErrLost: another process may have begun. With leasehold.ErrUnknown none has,
//     but others may have to wait for the TTL;
//   - goose.PartialError and everything else that fn returned;
//   - those of leasehold.Client.Lock, with fn not called: leasehold.ErrHeld after Wait.
func (l *Locker) Run(ctx context.Context, fn func(ctx context.Context) error) error {
	return l.wrap(l.locks.Do(ctx, l.name, func(ctx context.Context, _ *leasehold.Lease) error {
		l.begin()
		defer l.end()
		return fn(ctx)
	}))
}

// Up applies all pending migrations under the lock, with Run. Unlike Provider.Up it holds the
// lock also while goose looks what is pending and makes its table.
func (l *Locker) Up(ctx context.Context, p *goose.Provider) (applied []*goose.MigrationResult, err error) {
	err = l.Run(ctx, func(ctx context.Context) error {
		applied, err = p.Up(ctx)
		return err
	})
	return applied, err
}

// Lock locks for a Provider. goose calls it if the Provider has WithLocker. The errors are
// those of leasehold.Client.Lock. It returns leasehold.ErrHeld before Wait has passed when the
// function of a Run begins, and at once while that runs, unless ctx comes from that Run. goose
// learns nothing of a loss: use Run.
func (l *Locker) Lock(ctx context.Context, db *sql.DB) error { return l.lock(ctx, db) }

// Unlock ends what Lock began. It returns leasehold.ErrLost if the lock was lost before, so that
// the Provider's call fails although its migrations were applied; leasehold.ErrUnknown; and
// ErrNotLocked. It unlocks even if ctx has ended.
func (l *Locker) Unlock(_ context.Context, db *sql.DB) error { return l.unlock(db) }

// SessionLock is Lock for a Provider that has WithSessionLocker. It does nothing with the
// connection. goose refuses WithSessionLocker for some migrations on a database that has only
// one connection: prefer WithLocker.
func (l *Locker) SessionLock(ctx context.Context, conn *sql.Conn) error { return l.lock(ctx, conn) }

// SessionUnlock is Unlock for a Provider that has WithSessionLocker.
func (l *Locker) SessionUnlock(_ context.Context, conn *sql.Conn) error { return l.unlock(conn) }

const besideRun = "a Run of this Locker goes on and may need the Provider (give the Provider the context of Run, or call it again later)"

// begin ends the waiting of every lock when Run has the lease. A Provider keeps its mutex while it
// waits for its locker, and the function of Run needs that mutex: each would wait for the other.
func (l *Locker) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
	for stop := range l.waiting {
		(*stop)(fmt.Errorf("%s: %w", besideRun, leasehold.ErrHeld))
	}
}

func (l *Locker) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}

// obtain waits for the lease, but not beside the function of a Run. A lock with the context of that
// Run does not have to wait: it shares the lease.
func (l *Locker) obtain(ctx context.Context) (*leasehold.Lease, error) {
	l.mu.Lock()
	if l.running > 0 {
		l.mu.Unlock()
		lease, err := l.locks.TryLock(ctx, l.name)
		if errors.Is(err, leasehold.ErrHeld) {
			err = fmt.Errorf("%s: %w", besideRun, err)
		}
		return lease, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	l.waiting[&stop] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.waiting, &stop)
		l.mu.Unlock()
		stop(nil)
	}()
	return l.locks.Lock(ctx, l.name)
}

func (l *Locker) lock(ctx context.Context, on any) error {
	lease, err := l.obtain(ctx)
	if err != nil {
		return l.wrap(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[on] = append(l.held[on], lease)
	return nil
}

// unlock ends the oldest lease. There are two only if the older one is lost and its migration
// goes on, which goose cannot be told. To end the younger one would let a third migration
// begin beside the second. The older one costs its owner's neighbour a wrong ErrLost at most.
func (l *Locker) unlock(on any) error {
	l.mu.Lock()
	leases := l.held[on]
	if len(leases) == 0 {
		l.mu.Unlock()
		return l.wrap(ErrNotLocked)
	}
	if l.held[on] = leases[1:]; len(leases) == 1 {
		delete(l.held, on)
	}
	l.mu.Unlock()
	return l.wrap(leases[0].Unlock())
}

func (l *Locker) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gooselock: %q: %w", l.name, err)
}
