package leasehold

import (
	"time"

	"leasehold/engine"
)

// DefaultTTL is used if Options.TTL is zero, unless the engine's longest TTL is
// shorter.
const DefaultTTL = 30 * time.Second

// Options are the choices of a Client. Nil means the defaults.
type Options struct {
	// TTL is how long a lease outlives the last sign of life of its holder. It is
	// between 100 ms and 24 h and within the engine's own bounds. Default DefaultTTL,
	// or the engine's longest TTL if that is shorter.
	TTL time.Duration

	// Require is the least that the engine must promise: New returns ErrRequire if it
	// promises less of anything (engine.Guarantees.Missing compares). A zero field
	// requires nothing.
	Require engine.Guarantees

	// Label is shown to anybody who inspects the queue.
	Label string

	// FailFast makes a call fail at once if the engine cannot be reached. By default
	// Lock tries again until its context or its Wait ends.
	FailFast bool

	// NoLocalHandoff turns local handoff off: every lease is a claim of its own.
	NoLocalHandoff bool

	// IdleTimeout is how long a claim stays with this process after its last lease
	// ended, unless another process wants the name. To lock the name again within that
	// time costs no round trip.
	//
	// An idle claim may refuse another client's TryLock. This client then learns of the
	// refusal and gives the name back. The refused TryLock reads the queue to report
	// who holds the name; if the queue is empty by then, it tries once more. Otherwise
	// that client's next TryLock, or a Lock, obtains the name. A LockAll that fails
	// gives its names back at once. An engine that notifies no holder of refusals, such as
	// redlock, leaves the claim with this client for the whole time.
	//
	// Default 0: a claim is given back at once.
	IdleTimeout time.Duration

	// DeadlockAfter is how long a caller that holds a name waits for another one before
	// it searches for a deadlock. A deadlock is a cycle of callers, each of whom waits
	// for a name that the next one holds. The caller with the youngest claim of the
	// cycle gets ErrDeadlock, about a quarter of DeadlockAfter later. A waiter that
	// finds no deadlock searches again, each time after twice DeadlockAfter.
	//
	// A search reads the queue of the awaited name, and the queues of the names that
	// the caller holds. If somebody waits for one of those, it follows them and reads
	// one queue for each name on the way, 256 queues at most. A caller reads nothing
	// before its first search. A caller holds the names that its context carries
	// (Lease.Context), through any Client. The search assumes that a caller keeps them
	// until its call returns.
	//
	// A Client does not search if the engine does not show who waits
	// (Guarantees.SeesWaiters, which Require can ask for). Default 1 s; at least 10 ms;
	// a negative value turns the search off.
	DeadlockAfter time.Duration

	// Observer is called with what happens to the leases of this Client (LogTo makes
	// one). The call comes from the goroutine in which the event happened, with no lock
	// held. An Observer must be safe for concurrent use, should return soon and must
	// not call Close. Events of different goroutines may overtake each other. Default:
	// events are dropped.
	Observer func(Event)
}

// LockOptions are the choices of single calls, made through [Client.With]. The zero
// value is what a Client has that New returned.
type LockOptions struct {
	// TTL replaces Options.TTL.
	TTL time.Duration

	// Wait bounds the waiting, like a deadline of the context. At its end the call
	// fails with ErrHeld. With 0 the call waits until the context ends. A negative
	// value is refused: call TryLock, TryRLock or TryAcquire to ask once.
	Wait time.Duration

	// MinHold keeps the name taken at least this long after it was obtained, even if
	// Unlock comes earlier. If the engine has detached claims, the name stays taken
	// even if the process exits, but then for the engine's longest TTL at most
	// (Guarantees.TTLs). The Client keeps the name for longer only while it is open.
	// MinHold is for jobs that must not run twice because one machine was fast. Such
	// leases are not handed off.
	MinHold time.Duration

	// MaxHold ends the lease this long after it was obtained, with the cause
	// ErrMaxHold, although renewals succeed. It must not be less than MinHold. Such
	// leases are not handed off. The name is free at Unlock, or when the TTL has passed:
	// see NoRenew.
	MaxHold time.Duration

	// NoRenew grants the lease for one TTL and never renews it. On an engine with sessions
	// (Guarantees.CrashRelease is engine.CrashSession) the claim outlives the lease while
	// the process lives, unless it is Detached: the name is free at Unlock.
	NoRenew bool

	// Detached lets the claim outlive this process and end by its TTL alone, so that
	// Lease.Detach can hand it to another process. An engine without detached claims
	// refuses it with errors.ErrUnsupported.
	Detached bool

	// Reentrant lets a caller obtain a name again that its own context holds (see
	// Lease.Context). Lock and RLock then return one more handle of the existing hold.
	// The hold ends when its last handle is unlocked, in any order. It stays as it was
	// obtained: TTL, MinHold, MaxHold, NoRenew and Detached of the inner call do not
	// matter. So RLock under the caller's own Lock stays exclusive until the last
	// handle has ended, and Lock under the caller's own RLock fails with ErrUpgrade.
	// Acquire takes further permits.
	//
	// Goroutines that share the context of a lease then do NOT exclude each other.
	// Default: ErrReentry, as Go's own locks are not re-entrant either.
	Reentrant bool

	// NoLocalHandoff gives the call a claim of its own, which no caller of this process had
	// before and none gets after it. So the queue shows the Label of this very call. With
	// Options.NoLocalHandoff every call has one.
	NoLocalHandoff bool

	// Label replaces Options.Label.
	Label string
}
