package engine

import (
	"context"
	"iter"
)

// Engine remembers queues. One value serves one client of package leasehold and is safe
// for concurrent use. Every method returns soon after its context ends. An engine gets
// only checked arguments, and no call after Close. The numbers refer to the rules in
// the package documentation.
type Engine interface {
	// Join takes a place at the end of the queue of r.Name, or finds the place that
	// r.ID already has there (1, 3, 4, 7).
	Join(ctx context.Context, r Request) (Claim, error)

	// Renew extends claims, held and waiting, and returns their state. For existing
	// claims it also returns ticket, permits and limit. Answers may have any order, and
	// each name may occur more than once (1, 4, 5). There are 1 to [MaxBatch] renewals.
	Renew(ctx context.Context, rs []Renewal) ([]Claim, error)

	// Leave gives claims up, held or waiting, and returns what it found (8). Only Name
	// and ID of the arguments count. There are 1 to [MaxBatch].
	Leave(ctx context.Context, cs []Claim) ([]Claim, error)

	// Watch is one subscription to changes of this client's claims (6). It blocks until
	// the subscription breaks, and returns the cause, or until ctx ends, and returns
	// the error of ctx. ctx ends at Close at the latest. Watch does not try again by
	// itself. At most one Watch runs at a time.
	Watch(ctx context.Context, changed func(Claim)) error

	// Queue reads one queue for inspection: in order, holders first, without IDs. It
	// proves nothing (5). A name without claims has an empty queue.
	Queue(ctx context.Context, name string) (Queue, error)

	// Queues reads every queue that has claims and whose name begins with prefix, in no
	// particular order and not at one moment. An error ends it.
	Queues(ctx context.Context, prefix string) iter.Seq2[Queue, error]

	// Revoke ends the claim with that ticket (8). It returns [ErrNoClaim] if there is
	// none.
	Revoke(ctx context.Context, name string, ticket uint64, now bool) error

	// Guarantees returns what this engine promises. It is constant and cheap.
	Guarantees() Guarantees

	// Close ends what this client has open and what it started. It does not give claims
	// up: the core did that before, as far as the store answered, and the rest ends as
	// [CrashRelease] says. It is called once. Calls that are under way then return soon.
	// Close bounds its own time.
	Close() error
}
