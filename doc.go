// Package leasehold holds names: exclusively, shared, or n at a time, across
// goroutines, processes and machines, on the coordination engine you already
// run, or on none at all.
//
//	eng, err := filelock.New(dir, nil)
//	locks, err := leasehold.New(eng, nil)
//	err = locks.Do(ctx, "stock:42", func(ctx context.Context, l *leasehold.Lease) error {
//		return sell(ctx, db, l.Token())
//	})
//
// # What it promises
//
// Nobody owns a distributed lock; they hold it on a lease. A lease is a claim
// in the queue of a name (package engine) that this process proves to hold:
//
//	trusted until = start of the last successful Join or Renew
//	              + granted TTL (at most what was asked for) - 1 % - 7 ms
//
// Until then no other claim is granted beyond the name's limit, as far as the
// engine's guarantees reach. Leases are renewed by themselves every third of
// their TTL. One that cannot be renewed ends at its trusted-until at the
// latest: its context is cancelled with the cause [ErrLost] and stays so, and
// Valid is false from that instant, also in a process that was stopped and
// continued, and on a machine that was suspended.
//
//   - First come, first served between processes, where the engine keeps an
//     order. Callers of one process share claims (local handoff), bounded while
//     another process waits.
//   - Tokens of exclusive leases of one name only rise, where the engine
//     declares fencing.
//   - A live waiter holds within about a second of there being room, whatever
//     notification was lost; normally at once.
//   - Callers that hold something and wait for each other in a cycle do not wait
//     for ever, where the engine shows who waits: after about a second the
//     youngest of them gets [ErrDeadlock], and the others go on.
//   - Unlock tells the truth: nil, ErrLost, or ErrUnknown.
//   - A cancelled call leaves nothing behind, or, if the engine could not be
//     told, a claim that ends by itself.
//
// # What it cannot promise
//
// No lock protects a resource from a holder that was paused between looking at
// the lease and using the resource: by the time it goes on, somebody else may
// hold the name. Hand [Lease.Token] to the resource and let it refuse any
// token below the highest it has seen.
//
// What an engine guarantees differs: see docs/guarantees.md, and let
// [Options.Require] refuse one that does not promise what you need.
package leasehold
