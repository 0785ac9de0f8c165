package leasehold

import (
	"errors"
	"fmt"
	"time"

	"leasehold/engine"
)

// Errors tell the caller what to do next. Every error of a Client or a Lease
// names the operation and the lock; look for the cause with errors.Is and
// errors.As. Those of the contract reach callers unchanged: engine.ErrName (the
// name cannot be locked), engine.ErrLimit (users of one name disagree on its
// limit, such as Lock and Acquire(3 of 10)), engine.ErrNoClaim, and
// errors.ErrUnsupported (this engine cannot do that at all; see its row in
// docs/guarantees.md).
var (
	// ErrHeld: somebody else holds the name and the call was not to wait any
	// longer. Try again later, or do without. HeldError says who holds it.
	ErrHeld = errors.New("held by somebody else")

	// ErrLost: the lease ended before Unlock; somebody else may hold the name
	// since. It is the cause of the lease's context and the result of Unlock.
	// Stop using the resource; what was written since may have to be undone,
	// unless the resource checks tokens. LostError says why.
	ErrLost = errors.New("lease lost")

	// ErrRevoked is an ErrLost: somebody asked for the name with Revoke.
	ErrRevoked = fmt.Errorf("%w: revoked", ErrLost)

	// ErrMaxHold is an ErrLost: LockOptions.MaxHold has passed.
	ErrMaxHold = fmt.Errorf("%w: held for MaxHold", ErrLost)

	// ErrUnknown is a result of Unlock: the hold was proven to its end, but
	// the engine did not confirm the release. Nothing to do: others get the
	// name at the latest when the TTL has passed.
	ErrUnknown = errors.New("release not confirmed: others may wait until the TTL has passed")

	// ErrUnavailable: the engine could not be reached in the time given. It
	// wraps the engine's last error. Nothing is held.
	ErrUnavailable = errors.New("engine unavailable")

	// ErrReentry: the caller's own context holds the name already, and the call
	// would wait for itself for ever. Pass on a context that does not come from
	// the lease to whatever must be excluded; to count up instead, choose
	// LockOptions.Reentrant.
	ErrReentry = errors.New("this caller's context holds it already: it would wait for itself")

	// ErrUpgrade is an ErrReentry that no choice helps against: the context
	// holds the name shared and asks for it exclusively. Unlock first.
	ErrUpgrade = fmt.Errorf("%w: it holds it shared, unlock before locking exclusively", ErrReentry)

	// ErrDeadlock: the caller waited while it held something, in a cycle of
	// callers each of whom waited for the next one, and it was the youngest.
	// Nothing was taken from it: the others go on when it unlocks what it holds.
	// Undo what was begun, unlock, and begin again, best with LockAll or in one
	// order of names. DeadlockError has the cycle.
	ErrDeadlock = errors.New("deadlock")

	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("client closed")

	// ErrRequire: the engine does not promise what Options.Require asks for.
	// Choose another engine or ask for less.
	ErrRequire = errors.New("engine does not promise what is required")
)

// HeldError is the ErrHeld of one name: who holds it, as far as a look at the
// queue right after could tell.
type HeldError struct {
	Name   string
	Waited time.Duration  // how long this caller waited
	By     []engine.Claim // the holders; empty if they were gone by then
	Ahead  int            // how many waited as well

	// Own: this Client holds it. If that is the caller's own call, it waits for itself:
	// it needs the lease's context (Lease.Bind, Lease.Context).
	Own bool

	free bool // nobody was in the queue by then
}

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

// ownHint is what to do where this process holds what it waits for.
const ownHint = "this process holds it: if that is your own call, ask with the lease's context (Lease.Bind)"

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

// LossReason says why a lease was lost, as far as the client can tell.
type LossReason uint8

// The reasons of a loss.
const (
	LossExpired    LossReason = iota + 1 // the engine answered no renewal before the TTL had passed
	LossStopped                          // this process did not run, or its machine slept, until the TTL had passed
	LossDeleted                          // the engine had the claim no more although its TTL had not passed
	LossRevoked                          // somebody asked for the name with Revoke
	LossMaxHold                          // LockOptions.MaxHold has passed
	LossNotRenewed                       // the TTL has passed, and LockOptions.NoRenew
	LossClosed                           // this Client was closed; the cause is ErrClosed
)

func (r LossReason) String() string {
	names := []string{"expired", "stopped", "deleted", "revoked", "max hold", "not renewed", "closed"}
	if r < 1 || int(r) > len(names) {
		return fmt.Sprintf("loss reason %d", uint8(r))
	}
	return names[r-1]
}

// LostError is the ErrLost of one lease: why it was lost. It is an ErrRevoked or an
// ErrMaxHold as well where that is the reason.
type LostError struct {
	Reason LossReason
	Err    error // more about it: of LossExpired the call that the engine did not answer, if there was one
}

func (e *LostError) Error() string { return ErrLost.Error() + ": " + e.Why() }

// Why is the reason in words, and what the engine said.
func (e *LostError) Why() string {
	why := map[LossReason]string{
		LossExpired:    "the engine answered no renewal before the TTL had passed",
		LossStopped:    "this process did not run, or its machine slept, until the TTL had passed",
		LossDeleted:    "the engine has no such claim any more although its TTL has not passed (somebody deleted it at the store, or the store forgot it)",
		LossRevoked:    "somebody revoked it",
		LossMaxHold:    "it was held for MaxHold",
		LossNotRenewed: "its TTL has passed, and LockOptions.NoRenew has it not renewed",
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

// Unwrap is what the engine said.
func (e *LostError) Unwrap() error { return e.Err }
