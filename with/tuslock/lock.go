package tuslock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tus/tusd/v2/pkg/handler"
	"leasehold"
)

// lock is the lock of one request.
type lock struct {
	locker *Locker
	id     string

	mu      sync.Mutex
	waiting bool  // a Lock is under way
	hold    *hold // between Lock and Unlock
}

// Lock obtains the upload. requestUnlock is called once at most, in a goroutine of its own:
// when somebody waits for the upload, or when the lease was lost, whichever comes first. It is
// not called any more once Unlock has begun, except for a call that begins at the same time.
// Nil is allowed.
//
// Errors: handler.ErrLockTimeout when ctx has ended, or LockOptions.Wait of the client has passed;
// ErrUnavailable for all other errors of the client, which it wraps; ErrInUse.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	if err := l.begin(); err != nil {
		return l.wrap(err)
	}
	h, err := l.obtain(ctx)
	l.mu.Lock()
	l.waiting, l.hold = false, h
	l.mu.Unlock()
	if err != nil {
		return l.wrap(err)
	}
	if requestUnlock != nil {
		go h.watch(requestUnlock)
	}
	return nil
}

func (l *lock) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting || l.hold != nil {
		return ErrInUse
	}
	l.waiting = true
	return nil
}

func (l *lock) obtain(ctx context.Context) (*hold, error) {
	lease, err := l.locker.locks.Lock(ctx, l.locker.name(l.id))
	if err != nil {
		return nil, answer(ctx, err)
	}
	h, err := l.locker.enter(ctx, l.id, lease)
	if err != nil {
		return nil, errors.Join(answer(ctx, err), lease.Unlock())
	}
	return h, nil
}

// answer makes an error of the client one that tusd has a status for. Without that, tusd would
// send the text of the engine's error to whoever asked.
func answer(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, leasehold.ErrHeld) {
		return fmt.Errorf("%w: %w", handler.ErrLockTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// watch calls requestUnlock when the holder should stop. The context of the lease ends at
// Unlock, too, and then released is closed already.
func (h *hold) watch(requestUnlock func()) {
	select {
	case <-h.released:
		return
	case <-h.lease.Contended():
	case <-h.lease.Context().Done():
	}
	select {
	case <-h.released:
	default:
		requestUnlock()
	}
}

// Unlock gives the upload back. It takes a few seconds at most if the engine does not answer.
// Errors: ErrNotHeld; leasehold.ErrLost if the lease had been lost; leasehold.ErrUnknown if
// the engine did not confirm, and others may wait until the TTL has passed.
func (l *lock) Unlock() error {
	l.mu.Lock()
	h := l.hold
	l.hold = nil
	l.mu.Unlock()
	if h == nil {
		return l.wrap(ErrNotHeld)
	}
	return l.wrap(l.locker.leave(l.id, h))
}

func (l *lock) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tuslock: upload %.80q: %w", l.id, err)
}
