package engine

import (
	"context"
	"iter"
)

// Engine remembers queues. One value serves one client of package leasehold and
// is safe for concurrent use. Every method returns soon after its context
// ends. Arguments are checked before they get here, and nothing is asked after
// Close. The numbers refer to the rules in the package documentation.
type Engine interface {
	// Join takes a place at the end of the queue of r.Name, or finds the place
	// that r.ID already has there (1, 3, 4, 7).
	Join(ctx context.Context, r Request) (Claim, error)

	// Renew extends claims, held and waiting, and reports what they are now: of
	// those that stand also ticket, permits and limit.
	// It may answer in any order and each name may occur more than once (1, 4,
	// 5). There are 1 to [MaxBatch] renewals.
	Renew(ctx context.Context, rs []Renewal) ([]Claim, error)

	// Leave gives claims up, held or waiting, and says what was found (8).
	// Only Name and ID of the arguments count. There are 1 to [MaxBatch].
	Leave(ctx context.Context, cs []Claim) ([]Claim, error)

	// Watch is one subscription to changes of this client's claims (6). It blocks
	// until the subscription breaks, and returns why, or until ctx ends, which it
	// does at Close at the latest: then it returns ctx's error. It does not try
	// again by itself. At most one Watch runs at a time.
	Watch(ctx context.Context, changed func(Claim)) error

	// Queue reads one queue for inspection: in order, holders first, IDs left
	// empty. It proves nothing (5). A name nobody claims has an empty queue.
	Queue(ctx context.Context, name string) (Queue, error)

	// Queues reads every queue that has claims and whose name begins with
	// prefix, in no particular order and not at one moment. An error ends it.
	Queues(ctx context.Context, prefix string) iter.Seq2[Queue, error]

	// Revoke ends the claim with that ticket (8). Errors: [ErrNoClaim].
	Revoke(ctx context.Context, name string, ticket uint64, now bool) error

	// Guarantees says what this engine promises. It is constant and cheap.
	Guarantees() Guarantees

	// Close closes what this client has open, and ends what it started. It gives
	// no claims up: those were left before, as far as the store answered, and
	// what is left ends as [CrashRelease] says. It is called once, and calls that
	// are under way then return soon. It is bounded in time by itself.
	Close() error
}
