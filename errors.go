package leasehold

import (
	"errors"
	"fmt"
	"time"

	"leasehold/engine"
)

// These errors tell the caller what to do next. Every error of a Client or a Lease
// names the operation and the lock. Look for the cause with errors.Is and errors.As.
//
// Errors of the contract reach callers unchanged:
//
//   - engine.ErrName: the name cannot be locked.
//   - engine.ErrLimit: users of one name disagree on its limit, such as Lock and
//     Acquire(3 of 10).
//   - engine.ErrNoClaim: Revoke found no claim with that ticket.
//   - errors.ErrUnsupported: this engine cannot do that at all; see its row in
//     docs/guarantees.md.
var (
	// ErrHeld is returned when somebody else holds the name and the call may not wait
	// any longer. Try again later, or do without the lock. HeldError says who holds it.
	ErrHeld = errors.New("held by somebody else")

	// ErrLost is returned by Unlock when the lease ended before it, and is the cause of
	// the lease's context. Somebody else may have held the name since. Stop using the
	// resource. Writes since then may have to be undone, unless the resource checks
	// tokens. LostError says why.
	ErrLost = errors.New("lease lost")

	// ErrRevoked is the ErrLost of a lease, or of a waiting claim, that somebody ended
	// with Revoke.
	ErrRevoked = fmt.Errorf("%w: revoked", ErrLost)

	// ErrMaxHold is the ErrLost of a lease that was held for LockOptions.MaxHold.
	ErrMaxHold = fmt.Errorf("%w: held for MaxHold", ErrLost)

	// ErrUnknown is returned by Unlock when the hold was proven to its end, but the
	// engine did not confirm the release. There is nothing to do: others obtain the
	// name when the TTL has passed at the latest.
	ErrUnknown = errors.New("release not confirmed: others may wait until the TTL has passed")

	// ErrUnavailable is returned when the engine could not be reached in the time
	// given. It wraps the engine's last error. The caller holds nothing.
	ErrUnavailable = errors.New("engine unavailable")

	// ErrReentry is returned when the caller's own context holds the name already: the
	// call would wait for itself for ever. Pass a context that does not come from the
	// lease to code that must be excluded. To obtain one more handle instead, choose
	// LockOptions.Reentrant.
	ErrReentry = errors.New("the caller's context holds the name already: the call would wait for itself")

	// ErrUpgrade is an ErrReentry that LockOptions.Reentrant does not avoid: the
	// context holds the name shared and the call asks for it exclusively. Unlock first.
	ErrUpgrade = fmt.Errorf("%w: the context holds it shared; unlock it before you lock it exclusively", ErrReentry)

	// ErrDeadlock is returned to a caller that held something while it waited, in a
	// cycle of callers each of whom waited for the next one. It had the youngest claim.
	// It still holds what it held; the others go on when it unlocks that. Undo what was
	// begun, unlock, and begin again, best with LockAll or in one order of names.
	// DeadlockError has the cycle.
	ErrDeadlock = errors.New("deadlock")

	// ErrClosed is returned by calls of a closed Client. It is also the cause of the
	// contexts of leases that Close ended.
	ErrClosed = errors.New("client closed")

	// ErrRequire is returned by New when the engine promises less than Options.Require.
	// Choose another engine or require less.
	ErrRequire = errors.New("engine does not promise what is required")
)

// HeldError is the ErrHeld of one name. It says who holds the name, as the queue showed
// it right after the refusal.
type HeldError struct {
	Name   string
	Waited time.Duration  // how long this caller waited
	By     []engine.Claim // the holders; empty if they had gone by then, or the queue could not be read
	Ahead  int            // how many others waited; only those in front of this caller's claim, if it had one

	// Own reports that this Client holds the name. If the holder is the caller itself,
	// it waits for itself: it needs the lease's context (Lease.Bind, Lease.Context).
	Own bool

	free bool // nobody was in the queue by then
}

// Error returns who holds the name, with which ticket, since when and for how long.
func (e *HeldError) Error() string {
	if len(e.By) == 0 {
		return fmt.Sprintf("%q is held by somebody else", e.Name)
	}
	by := e.By[0]
	s := fmt.Sprintf("%q is held by %q with ticket %d", e.Name, by.Owner.String(), by.Ticket)
	if !by.Owner.Since.IsZero() {
		s += fmt.Sprintf(" (asked for at %s)", by.Owner.Since.Format(time.RFC3339))
	}
	if by.TTL > 0 {
		s += fmt.Sprintf(", for at most %v more unless renewed", by.TTL.Round(time.Millisecond))
	}
	if n := len(e.By) - 1; n > 0 {
		s += fmt.Sprintf(", and %d more", n)
	}
	if e.Own {
		s += "; " + ownHint
	}
	return s
}

// ownHint says what to do if this process holds the name that it waits for.
const ownHint = "this process holds it; if your own call holds it, lock with the lease's context (Lease.Bind)"

// Is makes a HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// wrap names the operation and the lock, once.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, engine.ErrClosed) {
		err = ErrClosed
	}
	return fmt.Errorf("leasehold: %s %q: %w", op, name, err)
}

// LossReason says why a lease was lost, as far as the client can know.
type LossReason uint8

// The reasons of a loss.
const (
	LossExpired    LossReason = iota + 1 // the engine answered no renewal before the TTL had passed
	LossStopped                          // this process did not run, or its machine slept, until the TTL had passed
	LossDeleted                          // the engine lost the claim although its TTL had not passed
	LossRevoked                          // somebody asked for the name with Revoke
	LossMaxHold                          // LockOptions.MaxHold has passed
	LossNotRenewed                       // the TTL has passed, and LockOptions.NoRenew forbids renewals
	LossClosed                           // the Client was closed; the cause is ErrClosed
)

// String returns the reason in one or two words.
func (r LossReason) String() string {
	names := []string{"expired", "stopped", "deleted", "revoked", "max hold", "not renewed", "closed"}
	if r < 1 || int(r) > len(names) {
		return fmt.Sprintf("loss reason %d", uint8(r))
	}
	return names[r-1]
}

// LostError is the ErrLost of one lease, and says why it was lost. It is also an
// ErrRevoked or an ErrMaxHold if that is the reason.
type LostError struct {
	Reason LossReason
	Err    error // more about it: for LossExpired, the call that the engine did not answer, if there was one
}

// Error returns the loss and its reason.
func (e *LostError) Error() string { return ErrLost.Error() + ": " + e.Why() }

// Why returns the reason in words, and what the engine said.
func (e *LostError) Why() string {
	why := map[LossReason]string{
		LossExpired:    "the engine answered no renewal before the TTL had passed",
		LossStopped:    "this process did not run, or its machine slept, until the TTL had passed",
		LossDeleted:    "the engine lost the claim although its TTL had not passed (somebody deleted it at the store, or the store forgot it)",
		LossRevoked:    "somebody revoked it",
		LossMaxHold:    "it was held for MaxHold",
		LossNotRenewed: "its TTL has passed, and LockOptions.NoRenew forbids renewals",
	}[e.Reason]
	if e.Err != nil {
		why += ": " + e.Err.Error()
	}
	return why
}

// Is makes a LostError an ErrLost, and an ErrRevoked or ErrMaxHold by its reason.
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrRevoked && e.Reason == LossRevoked || target == ErrMaxHold && e.Reason == LossMaxHold
}

// Unwrap returns the error of the engine.
func (e *LostError) Unwrap() error { return e.Err }
