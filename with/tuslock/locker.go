package tuslock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"
	"leasehold"
	"leasehold/engine"
)

var (
	// ErrLost answers a request whose lease was lost while it wrote. It is a
	// leasehold.ErrLost, too. The client asks for the offset and goes on, as after every
	// answer of the 500s.
	ErrLost = handler.NewError("ERR_LOCK_LOST", "the lock of the upload was lost; ask for the offset and go on", http.StatusServiceUnavailable)

	// ErrUnavailable answers a request that could not ask for its lock. It wraps the
	// engine's error, which the answer to the client does not show.
	ErrUnavailable = handler.NewError("ERR_LOCK_UNAVAILABLE", "the lock of the upload cannot be obtained now; try again later", http.StatusServiceUnavailable)

	// ErrNotHeld is returned by Unlock of a lock that is not held: never locked, or
	// unlocked before.
	ErrNotHeld = errors.New("this lock is not held: call Unlock once after each Lock that returned nil")

	// ErrInUse is returned by Lock of a lock that is held or waits already. Every request
	// needs a lock of its own: call NewLock again.
	ErrInUse = errors.New("this lock is held or waits already: call NewLock for each request")
)

// Options are the choices of a Locker. Nil means the defaults.
type Options struct {
	// TTL is how long the uploads of a dead instance stay locked: 100 ms to 24 h, within the
	// engine's own bounds. tusd waits 20 s for a lock (AcquireLockTimeout).
	// With a longer TTL the first request after a crash fails. Default 10 s, or the engine's
	// longest TTL if that is shorter.
	TTL time.Duration

	// Prefix begins the name of each lock; the upload's ID follows. All instances of
	// one store need the same. At most 256 bytes. Default "tus:".
	Prefix string

	// Label is shown to anybody who inspects the queue. Default: that of the client.
	Label string

	// AllowUnseenWaiters takes an engine that does not show who waits. A holder is then not
	// asked to stop for a request of another process, and that request may fail with
	// handler.ErrLockTimeout.
	AllowUnseenWaiters bool
}

const (
	defaultTTL    = 10 * time.Second
	defaultPrefix = "tus:"
	maxPrefix     = 256
)

// Locker is a handler.Locker over a client of leasehold. It is safe for concurrent use.
type Locker struct {
	locks  *leasehold.Client
	prefix string

	mu    sync.Mutex
	holds map[string]*hold // by upload ID: as many as there are requests that hold
}

// hold is one lease between Lock and Unlock.
type hold struct {
	lease    *leasehold.Lease
	released chan struct{} // closed at Unlock
}

// New returns a Locker over locks, which stays the caller's to close. The LockOptions of locks
// apply besides o.
//
// It returns leasehold.ErrRequire for an engine that does not show who waits, unless
// Options.AllowUnseenWaiters is set. It returns engine.ErrName for a Prefix that no name may begin with, and an
// error for a TTL that the engine does not grant and for no client.
func New(locks *leasehold.Client, o *Options) (*Locker, error) {
	if o == nil {
		o = &Options{}
	}
	if locks == nil {
		return nil, errors.New("tuslock: there is no client: make one with leasehold.New")
	}
	g := locks.Guarantees()
	if !g.SeesWaiters && !o.AllowUnseenWaiters {
		return nil, fmt.Errorf("tuslock: %w: this engine does not show a holder that somebody waits, so a stalled upload keeps other instances waiting; choose another engine or set AllowUnseenWaiters", leasehold.ErrRequire)
	}
	l := &Locker{prefix: o.Prefix, holds: map[string]*hold{}}
	if l.prefix == "" {
		l.prefix = defaultPrefix
	}
	if err := engine.CheckName(l.prefix); err != nil {
		return nil, fmt.Errorf("tuslock: Prefix: %w", err)
	}
	if len(l.prefix) > maxPrefix {
		return nil, fmt.Errorf("tuslock: Prefix has %d bytes, more than %d: %w", len(l.prefix), maxPrefix, engine.ErrName)
	}
	lo := locks.LockOptions()
	switch {
	case o.TTL != 0:
		lo.TTL = o.TTL
		if err := checkTTL(g, o.TTL); err != nil {
			return nil, err
		}
	case lo.TTL == 0:
		lo.TTL = defaultTTL
		if g.MaxTTL != 0 {
			lo.TTL = min(lo.TTL, g.MaxTTL)
		}
	}
	if o.Label != "" {
		lo.Label = o.Label
	}
	l.locks = locks.With(lo)
	return l, nil
}

// checkTTL refuses at the start what every Lock would refuse.
func checkTTL(g engine.Guarantees, ttl time.Duration) error {
	if err := engine.CheckTTL(ttl); err != nil {
		return fmt.Errorf("tuslock: %w", err)
	}
	if missing := g.Missing(engine.Guarantees{MinTTL: ttl, MaxTTL: ttl}); len(missing) > 0 {
		return fmt.Errorf("tuslock: %w: %s", leasehold.ErrRequire, missing[0])
	}
	return nil
}

// NewLock returns the lock of one request for the upload. It asks nobody yet.
//
// It returns handler.ErrNotFound for an empty ID. An ID that is no name (too long, or not
// printable as UTF-8) is locked by its SHA-256: clients choose the IDs of their requests.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	if id == "" {
		return nil, fmt.Errorf("tuslock: %w: the ID is empty", handler.ErrNotFound)
	}
	return &lock{locker: l, id: id}, nil
}

// name is that of the lock of an upload.
func (l *Locker) name(id string) string {
	name := l.prefix + id
	if engine.CheckName(name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return l.prefix + "sha256-" + hex.EncodeToString(sum[:])
}

// enter notes that this process holds the upload with that lease. After a loss an earlier
// request of this process may still be at work, although the lease is ours: it has been asked
// to stop, and enter waits for its Unlock. So holds has one entry for each upload, and what a
// request finds there during its own hold is its own.
func (l *Locker) enter(ctx context.Context, id string, lease *leasehold.Lease) (*hold, error) {
	h := &hold{lease: lease, released: make(chan struct{})}
	for {
		l.mu.Lock()
		earlier := l.holds[id]
		if earlier == nil {
			l.holds[id] = h
			l.mu.Unlock()
			return h, nil
		}
		l.mu.Unlock()
		select {
		case <-earlier.released:
		case <-lease.Context().Done():
			return nil, context.Cause(lease.Context())
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// leave takes the entry out before the lease ends, so the next holder finds none.
func (l *Locker) leave(id string, h *hold) error {
	l.mu.Lock()
	delete(l.holds, id)
	l.mu.Unlock()
	close(h.released)
	return h.lease.Unlock()
}

// holding returns the hold of an upload in this process, or nil.
func (l *Locker) holding(id string) *hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds[id]
}
