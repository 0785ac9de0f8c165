package leasehold

import (
	"time"

	"leasehold/engine"
)

// DefaultTTL is Options.TTL where it is zero, unless the engine's longest is less.
const DefaultTTL = 30 * time.Second

// Options are the choices of a Client. Nil means the defaults.
type Options struct {
	// TTL is how long a lease outlives the last sign of life of its holder.
	// Default DefaultTTL, or the engine's longest if that is less; 100 ms to 24 h,
	// and within the engine's own bounds.
	TTL time.Duration

	// Require is the least that the engine must promise: New refuses with
	// ErrRequire one that promises less of anything (engine.Guarantees.Missing
	// compares). What is left zero does not matter.
	Require engine.Guarantees

	// Label is shown to whoever inspects the queue.
	Label string

	// FailFast: an engine that cannot be reached fails a call at once. By
	// default Lock asks again until its context or its Wait ends.
	FailFast bool

	// NoLocalHandoff turns local handoff off: every lease is a claim of its own.
	NoLocalHandoff bool

	// Keep ("sticky") keeps a claim this long after its last lease ended,
	// unless another process wants it. Locking it again then costs no round
	// trip. Another client's TryLock may be refused by what is only kept: this
	// client hears of that and gives the name back, and TryLock asks once more if
	// that was done by the time it looks who holds it. Its next TryLock, or a
	// Lock, gets the name. The names of a LockAll that failed are not kept.
	// Default 0: given back at once.
	IdleTimeout time.Duration

	// DeadlockAfter is how long a caller waits, while it holds something, before
	// it looks whether it waits in a cycle: for somebody who waits for what it
	// holds, directly or not. The youngest claim of a cycle gets ErrDeadlock,
	// about a quarter of this later. It polls again every two times this long.
	// Looking reads its own queue and those of what it holds; where somebody waits for
	// that, one for each name on the way as well, 256 at most. Nothing is read before.
	// What a caller holds is what its context says (Lease.Context), on whatever Client;
	// until it is answered it is taken to keep that. Where the
	// engine does not show who waits (Guarantees.SeesWaiters, for which Require can
	// ask) nobody looks. Default 1 s; at least 10 ms; negative: never.
	DeadlockAfter time.Duration

	// Observer hears what happens to the leases of this Client (LogTo makes
	// one). It is called with no lock held, by whatever goroutine the event
	// happened in: it must be safe for concurrent use, should return soon and
	// must not call Close. Events of different goroutines may overtake each
	// other. Default: nobody.
	Observer func(Event)
}

// LockOptions are the choices of single calls, made through [Client.With]. The zero
// value is what a Client has that With did not make.
type LockOptions struct {
	// TTL replaces Options.TTL.
	TTL time.Duration

	// Wait bounds the waiting, like a deadline of the context. At its end the call
	// fails with ErrHeld. 0: until the context ends. Less is refused: TryLock,
	// TryRLock and TryAcquire ask once.
	Wait time.Duration

	// MinHold keeps the name taken at least this long after it was obtained,
	// even if Unlock comes earlier and even if the process exits then (where
	// the engine has detached claims). For jobs that must not run twice
	// because one machine was fast. Such leases are not handed off.
	MinHold time.Duration

	// MaxHold ends the lease this long after it was obtained, with the cause
	// ErrMaxHold, although renewals succeed; no less than MinHold. Such leases are
	// not handed off.
	MaxHold time.Duration

	// NoRenew: the lease is granted for one TTL and never renewed.
	NoRenew bool

	// Detached: the claim outlives this process and ends by its TTL alone, so
	// that Lease.Detach can hand it to another. Refused with
	// errors.ErrUnsupported where the engine cannot.
	Detached bool

	// Reentrant lets a caller have a name again that its own context holds (see
	// Lease.Context). Lock and RLock count up: they give one more handle of the
	// hold that is there, which ends with the last handle, in any order, and
	// stays as it was obtained, whatever TTL, MinHold, MaxHold, NoRenew and
	// Detached the inner call has. So RLock under one's own Lock stays exclusive
	// until the last handle has ended, and Lock under one's own RLock is
	// ErrUpgrade. Acquire takes further permits.
	//
	// Goroutines that share the context of a lease then do NOT exclude each
	// other. Default: ErrReentry, as Go's own locks are not re-entrant either.
	Reentrant bool

	// Label replaces Options.Label.
	Label string
}
