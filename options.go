package leasehold

import (
	"time"

	"leasehold/engine"
)

// NoWait as LockOptions.Wait asks once and never waits.
const NoWait time.Duration = -1

// DefaultTTL is Options.TTL where it is zero.
const DefaultTTL = 30 * time.Second

// Bounds of the core. Those of names, TTLs and units are the contract's
// (package engine).
const (
	// lendBudget is how many leases are lent while another process waits, and
	// lendTime for how long, whichever ends first.
	lendBudget = 32
	lendTime   = 10 * time.Millisecond

	// firstTTL is what a claim is born with (rule 3 of package engine): what a
	// cancelled or crashed caller can leave behind.
	firstTTL = 3 * time.Second

	// raiseAfter bounds when a held claim is raised to its full TTL.
	raiseAfter = 200 * time.Millisecond

	// believe is how long "nobody waits behind you" is believed without being
	// heard again, and listen how often it is asked while that matters.
	believe = time.Second
	listen  = 500 * time.Millisecond

	// releaseBound is the longest that Unlock and Close wait for an engine.
	releaseBound = 5 * time.Second
)

// Options are the choices of a Client. Nil means the defaults.
type Options struct {
	// TTL is how long a lease outlives the last sign of life of its holder.
	// Default DefaultTTL; 100 ms to 24 h, and within the engine's own bounds.
	TTL time.Duration

	// Require is the least that the engine must promise: New refuses with
	// ErrRequire one that promises less of anything (engine.Guarantees.Missing
	// compares). What is left zero does not matter.
	Require engine.Guarantees

	// Label is shown to whoever inspects the line.
	Label string

	// FailFast: an engine that cannot be reached fails a call at once. By
	// default Lock asks again until its context or its Wait ends.
	FailFast bool

	// NoLend turns lending off: every lease is a claim of its own.
	NoLend bool

	// Keep ("sticky") keeps a claim this long after its last lease ended,
	// unless another process wants it. Locking it again then costs no round
	// trip. A TryLock of this client in the other mode (shared, exclusive) is
	// refused once by what it keeps. Default 0: given back at once.
	Keep time.Duration

	// Observer hears what happens to the leases of this Client (LogTo makes
	// one). It is called with no lock held, by whatever goroutine the event
	// happened in: it must be safe for concurrent use, should return soon and
	// must not call Close. Events of different goroutines may overtake each
	// other. Default: nobody.
	Observer func(Event)

	// Clock is the time elapsed since a fixed moment; it must count the time a
	// machine is suspended. Default: the machine's. Tests in a synctest bubble
	// give one of their own.
	Clock func() time.Duration
}

// LockOptions are the choices of single calls, set through [Client.With]. The
// zero value changes nothing.
type LockOptions struct {
	// TTL replaces Options.TTL.
	TTL time.Duration

	// Wait bounds the waiting. 0: until the context ends. NoWait: ask once.
	// At its end the call fails with ErrHeld.
	Wait time.Duration

	// MinHold keeps the name taken at least this long after it was obtained,
	// even if Unlock comes earlier and even if the process exits then (where
	// the engine has detached claims). For jobs that must not run twice
	// because one machine was fast. Such leases are not lent.
	MinHold time.Duration

	// MaxHold ends the lease this long after it was obtained, with the cause
	// ErrMaxHold, although renewals succeed. Such leases are not lent.
	MaxHold time.Duration

	// NoRenew: the lease is granted for one TTL and never renewed.
	NoRenew bool

	// Detached: the claim outlives this process and ends by its TTL alone, so
	// that Lease.Detach can hand it to another. Refused with
	// errors.ErrUnsupported where the engine cannot.
	Detached bool

	// Label replaces Options.Label.
	Label string
}
