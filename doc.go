// Package leasehold locks names: exclusively, shared, or n at a time, across
// goroutines, processes and machines. It uses the coordination engine that you already
// run, or none at all.
//
//	eng, err := filelock.New(dir, nil)
//	locks, err := leasehold.New(eng, nil)
//	err = locks.Do(ctx, "stock:42", func(ctx context.Context, l *leasehold.Lease) error {
//		return sell(ctx, db, l.Token())
//	})
//
// # What it promises
//
// Nobody owns a distributed lock; its holder has a lease. A lease is a claim in the
// queue of a name (package engine), which this process proves to hold:
//
//	trusted until = start of the last successful Join or Renew
//	              + granted TTL (at most what was asked for) - 1 % - 7 ms
//
// Until then no other claim is granted beyond the name's limit, as far as the engine's
// guarantees reach. The client renews each lease every third of its TTL. A lease that
// the client cannot renew ends at its trusted-until at the latest. From that instant
// Valid returns false, and the lease's context is cancelled with the cause [ErrLost].
// Both stay so. That also holds for a process that was stopped and continued, and for a
// machine that was suspended.
//
//   - Processes obtain a name in the order in which they asked, if the engine keeps an
//     order. Callers of one process share claims (local handoff). Handoffs are bounded
//     while another process waits.
//   - Tokens of exclusive leases of one name only rise, if the engine declares fencing.
//   - A live waiter obtains its lease normally at once after there is room. If a
//     notification was lost, it does so at its next poll: within a second where the engine
//     says which waiter is next, and within four for all others.
//   - Callers that hold something and wait for each other in a cycle do not wait for
//     ever, if the engine shows who waits. After about a second the caller with the
//     youngest claim gets [ErrDeadlock], and the others go on.
//   - Unlock tells the truth: nil, ErrLost, or ErrUnknown.
//   - A cancelled call leaves no claim, or one that ends by itself if the engine
//     cannot be reached.
//
// # What it cannot promise
//
// No lock protects a resource from a holder that paused after it checked the lease and
// before it used the resource. When that holder continues, another process may hold the
// name. Hand [Lease.Token] to the resource and let it refuse any token below the
// highest it has seen.
//
// Engines guarantee different things: see docs/guarantees.md. With [Options.Require],
// [New] refuses an engine that does not promise what you need.
package leasehold
