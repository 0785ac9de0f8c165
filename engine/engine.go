package engine

import (
	"context"
	"iter"
)

// Engine remembers queues. One value serves one client of package leasehold and
// is safe for concurrent use. Every method returns soon after its context
// ends. The numbers refer to the rules in the package documentation.
type Engine interface {
	// Join takes a place at the end of the queue of r.Name, or finds the place
	// that r.ID already has there (1, 3, 4, 7).
	Join(ctx context.Context, r Request) (Claim, error)

	// Renew extends claims, held and waiting, and reports what they are now: of
	// those that stand also ticket, permits and limit.
	// It may answer in any order and each name may occur more than once (1, 4,
	// 5). Bounds: [MaxBatch] renewals a call.
	Renew(ctx context.Context, rs []Renewal) ([]Claim, error)

	// Leave gives claims up, held or waiting, and says what was found (8).
	// Only Name and ID of the arguments count. Bounds: [MaxBatch] claims.
	Leave(ctx context.Context, cs []Claim) ([]Claim, error)

	// Watch reports changes of this client's claims (6). It blocks until ctx
	// ends and then returns ctx's error; it reconnects by itself. At most one
	// Watch runs at a time.
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

	// Close ends this client: its claims that are not detached are given up
	// where the engine can (else they expire), and Watch returns. Closing
	// twice is allowed. It is bounded in time by itself.
	Close() error
}
