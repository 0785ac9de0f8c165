package queuestore

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// Record is the queue of one name at one moment of its store's clock.
type Record struct {
	Name  string
	Queue queue.Queue // for a name that the store does not know: the zero value, or Last alone

	// Now is the store's clock: the time since any fixed moment, the same for all clients
	// of the store, never going back. The store reads it inside the step, after any wait
	// in the step.
	Now time.Duration

	// Micros is the store's wall clock in microseconds since 1970. It decides nothing but
	// tickets: they rise with it even if the store forgot the queue.
	Micros uint64

	// Again means that an earlier call of the same change may have been stored, although
	// the store could not make sure of it.
	Again bool

	before []queue.Place // room for the places as they were: a store that keeps its records saves a copy's memory
}

// Store is a store of records as one client sees it. It is safe for concurrent use.
// Methods return soon after their context ends. An error means that nothing was learned,
// as in rule 1 of package engine.
type Store interface {
	// Change calls change with the record of name and stores the Queue that it leaves, in
	// one atomic step: no other Change of that name, by any client, comes between the load
	// and the store. When Change returns nil, the queue is stored as durably as Guarantees
	// says. Every other field of the record is the store's.
	//
	// The store may repeat an attempt that was not stored, with a newly loaded record and
	// another call of change. If change returns an error, there is nothing to store, and
	// Change returns that error as it is. (All that change may have done to Queue then is
	// to drop expired claims, so a store that works in place need not undo it.)
	//
	// change calls nothing of the store but [Liveness].Dead, and does not block.
	Change(ctx context.Context, name string, change func(*Record) error) error

	// Read returns the stored record of name, for inspection. The caller may change it.
	Read(ctx context.Context, name string) (Record, error)

	// Records reads records whose name begins with prefix, in any order and not at one
	// moment, as many at a time as suits the store. In the first call after is empty;
	// later it is the next that the previous call returned. The last call returns an empty
	// next. The caller may change the records.
	Records(ctx context.Context, prefix, after string) (records []Record, next string, err error)

	// Notify sends a notification to another client of the store, whose store passes it to
	// [Engine].Post as it is. It does not block. Notifications may be lost, repeated and
	// reordered: Notify does nothing for a client that is unknown or cannot be reached. A
	// store that delivers no notifications needs [Options].Poll.
	Notify(client string, notification engine.Claim)

	// Guarantees returns what the store promises. It is constant. The engine fills in
	// Order, Modes and SeesWaiters: the queue has them all.
	Guarantees() engine.Guarantees

	// Close ends this client. No other method runs then or will be called.
	Close() error
}

// Liveness is a [Store] that knows whether a client is still alive, so that the claims of
// a dead client need not expire. The engine removes them in the next change in which they
// matter. It polls at once when a client ends that blocks its claims.
type Liveness interface {
	Store

	// Dead reports whether a client is gone for certain and for ever. An unknown client
	// counts as alive. Dead is also called inside Change, but never for this client.
	Dead(client string) bool

	// Await asks the store to call [Engine].PollAfter for name, from a goroutine of the
	// store, once client is Dead. It may forget that after until (by the store's clock),
	// when this client's claim there has expired. Await does not block. A store may bound
	// how many clients it awaits: renewals notice the others.
	Await(client, name string, until time.Duration)
}
