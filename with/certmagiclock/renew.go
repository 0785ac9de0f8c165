package certmagiclock

import (
	"context"
	"time"

	"leasehold"
)

// RenewLockLease reports whether the name is still held. CertMagic calls it at the beginning of
// each attempt of a job, with the time that the attempt may take.
//
// A lease renews itself for as long as its process lives, so there is nothing to renew and
// d does not matter: a longer lease would only keep others waiting after a crash.
//
// After a loss the first call gives the lost claim back and returns leasehold.ErrLost, so CertMagic
// logs it and ends the attempt.
// CertMagic then tries again, for 30 days, and never locks again by itself. So the next call
// obtains the lock anew, within d at most, and returns the errors of Lock if it cannot. CertMagic
// looks in the storage after that, and issues nothing that another process has issued.
//
// It returns ErrNotHeld for a name that was not locked, or was unlocked.
func (s *Storage) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	s.mu.Lock()
	h := s.holds[name]
	if h == nil {
		s.mu.Unlock()
		return s.wrap("renewing", name, ErrNotHeld)
	}
	lease, told := h.lease, h.told
	h.told = !lease.Valid()
	lost := h.told
	s.mu.Unlock()
	switch {
	case !lost:
		return nil
	case !told:
		loss := lossOf(lease)
		// The attempt that worked under it ends with this answer. On engines whose claims end
		// with a session, the lost claim would otherwise stand before everybody until Unlock,
		// also before the next claim of this process.
		lease.Unlock()
		return s.wrap("renewing", name, loss)
	}
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	anew, err := s.lease(ctx, name, s.locks.Lock)
	if err != nil {
		return s.wrap("renewing", name, err)
	}
	s.mu.Lock()
	same := s.holds[name] == h && h.lease == lease
	if same {
		h.lease, h.told = anew, false
	}
	s.mu.Unlock()
	if !same { // unlocked meanwhile
		anew.Unlock()
		return s.wrap("renewing", name, ErrNotHeld)
	}
	return nil
}

// lossOf is why a lease is not valid.
func lossOf(lease *leasehold.Lease) error {
	if cause := context.Cause(lease.Context()); cause != nil {
		return cause
	}
	return leasehold.ErrLost
}
