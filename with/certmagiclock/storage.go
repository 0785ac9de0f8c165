package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/caddyserver/certmagic"
	"leasehold"
	"leasehold/engine"
)

// ErrNotHeld is returned by Unlock and RenewLockLease for a name that this Storage has not locked.
var ErrNotHeld = errors.New("this storage does not hold the lock: call Unlock once after each Lock that returned nil")

// Options are the choices of a Storage. Nil means the defaults.
type Options struct {
	// Prefix begins the name of each lock; CertMagic's name follows. All processes of one
	// storage need the same. At most 256 bytes. Default "certmagic:".
	Prefix string
}

const (
	defaultPrefix = "certmagic:"
	maxPrefix     = 256
)

// Storage is a certmagic.Storage, a TryLocker and a LockLeaseRenewer. It is safe for concurrent
// use.
type Storage struct {
	certmagic.Storage

	locks  *leasehold.Client
	prefix string

	mu    sync.Mutex
	holds map[string]*hold // by CertMagic's name: as many as are locked
}

// hold is a name between Lock and Unlock.
type hold struct {
	sites    []string      // of the domain whose certificate is locked: sitesOf; none for other locks
	released chan struct{} // closed at Unlock

	// Under Storage.mu.
	lease *leasehold.Lease
	told  bool // RenewLockLease has reported the loss
}

// New wraps storage with the locks of a client, which stays the caller's to close. The locks of
// storage itself are not used any more: every process that shares it must be wrapped. The
// client's TTL, or that of its LockOptions, is how long a dead process keeps others waiting. The
// other LockOptions of the client apply too, except for Wait.
//
// It returns engine.ErrName for a Prefix that no name may begin with, and an error if storage or
// locks is nil.
func New(storage certmagic.Storage, locks *leasehold.Client, o *Options) (*Storage, error) {
	if storage == nil || locks == nil {
		return nil, errors.New("certmagiclock: New needs a storage and a client")
	}
	prefix := defaultPrefix
	if o != nil && o.Prefix != "" {
		prefix = o.Prefix
	}
	if err := engine.CheckName(prefix); err != nil {
		return nil, fmt.Errorf("certmagiclock: Prefix: %w", err)
	}
	if len(prefix) > maxPrefix {
		return nil, fmt.Errorf("certmagiclock: Prefix has %d bytes, more than %d: %w", len(prefix), maxPrefix, engine.ErrName)
	}
	lo := locks.LockOptions()
	lo.Wait = 0 // CertMagic waits as long as its context lasts
	return &Storage{Storage: storage, locks: locks.With(lo), prefix: prefix, holds: map[string]*hold{}}, nil
}

// Lock obtains the name and waits as long as ctx lasts. It returns the errors of
// leasehold.Client.Lock: among others the cause of ctx, engine.ErrName for an empty name or one
// that is longer than engine.MaxName with the prefix, and leasehold.ErrClosed.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		if earlier := s.lostHold(name); earlier != nil {
			if err := earlier.wait(ctx); err != nil {
				return s.wrap("locking", name, err)
			}
		}
		earlier, err := s.obtain(ctx, name, s.locks.Lock)
		if err != nil {
			return s.wrap("locking", name, err)
		}
		if earlier == nil {
			return nil
		}
		if err := earlier.wait(ctx); err != nil {
			return s.wrap("locking", name, err)
		}
	}
}

// TryLock obtains the name if nobody holds it, and reports whether it did. Errors: those of
// Lock, but not for a held name.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	if s.lostHold(name) != nil {
		return false, nil
	}
	earlier, err := s.obtain(ctx, name, s.locks.TryLock)
	if errors.Is(err, leasehold.ErrHeld) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil && earlier == nil, s.wrap("locking", name, err)
}

// obtain makes a hold, or returns the earlier one of this process that is in its place.
//
// After a loss the lease is free for the next caller, but the goroutine that lost it may still be
// at work, and will call Unlock by the name. With a second hold that Unlock would end the wrong
// one. So the next caller of this process waits for it, and without a lease: other processes
// must not wait for a goroutine of this one.
func (s *Storage) obtain(ctx context.Context, name string, lock func(context.Context, string) (*leasehold.Lease, error)) (*hold, error) {
	lease, err := s.lease(ctx, name, lock)
	if err != nil {
		return nil, err
	}
	h := &hold{sites: sitesOf(name), released: make(chan struct{}), lease: lease}
	s.mu.Lock()
	earlier := s.holds[name]
	if earlier == nil {
		s.holds[name] = h
	}
	s.mu.Unlock()
	if earlier != nil {
		lease.Unlock() // nothing was done under it
	}
	return earlier, nil
}

func (s *Storage) lease(ctx context.Context, name string, lock func(context.Context, string) (*leasehold.Lease, error)) (*leasehold.Lease, error) {
	if name == "" {
		return nil, engine.CheckName(name)
	}
	return lock(ctx, s.prefix+name)
}

// lostHold returns the hold of the name that was lost and is not unlocked yet, or nil.
func (s *Storage) lostHold(name string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holds[name]; h != nil && !h.lease.Valid() {
		return h
	}
	return nil
}

func (h *hold) wait(ctx context.Context) error {
	select {
	case <-h.released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock gives the name back. It needs no context and works with an ended one. It takes a few
// seconds at most if the engine does not answer.
//
// Errors: ErrNotHeld; leasehold.ErrLost if the lock was lost before (another process may have
// issued meanwhile); leasehold.ErrUnknown if the engine did not confirm, and others may wait until
// the TTL has passed. In each case the name is unlocked here.
func (s *Storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	h := s.holds[name]
	if h == nil {
		s.mu.Unlock()
		return s.wrap("unlocking", name, ErrNotHeld)
	}
	delete(s.holds, name)
	lease := h.lease
	s.mu.Unlock()
	close(h.released)
	return s.wrap("unlocking", name, lease.Unlock())
}

func (s *Storage) wrap(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("certmagiclock: %s %.80q: %w", what, name, err)
}
