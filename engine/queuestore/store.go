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
	Queue queue.Queue // of a name that the store does not know: the zero value, or Last alone

	// Now is the store's clock: the time since any fixed moment, the same for
	// all clients of the store, never going back. It is read inside the step,
	// after whatever the step had to wait for.
	Now time.Duration

	// Micros is the store's wall clock in microseconds since 1970. It decides
	// nothing but tickets: they rise with it over a store that forgot the queue.
	Micros uint64

	// Again: an earlier call of the same change may have been stored, although
	// the store could not make sure of it.
	Again bool

	before []queue.Place // room for the places as they were: a store that keeps its records saves a copy's memory
}

// Store is a store of records as one client sees it. It is safe for concurrent
// use. Methods return soon after their context ends; an error means that
// nothing was learned, as in rule 1 of package engine.
type Store interface {
	// Change calls change with the record of name and stores the Queue that it
	// leaves, in one atomic step: no other Change of that name, of whatever
	// client, comes between the load and the store, and when Change returns nil
	// the queue is stored as durably as Guarantees says. Every other field of
	// the record is the store's.
	//
	// An attempt that was not stored may be repeated, with a newly loaded record;
	// change must then be called again. If change returns an error there is
	// nothing to store, and Change returns that error as it is. (All that
	// change may have done to Queue then is to drop claims that had expired, so
	// a store that works in place need not undo it.)
	//
	// change calls nothing of the store but [Liveness].Dead, and does not block.
	Change(ctx context.Context, name string, change func(*Record) error) error

	// Read is the record of name as it stands, for inspection. The caller may
	// change what it gets.
	Read(ctx context.Context, name string) (Record, error)

	// Records reads records whose name begins with prefix, in any order and not at
	// one moment, as many at a time as suits the store. after is empty at first
	// and then the next that the call before returned; the last call returns an
	// empty one. The caller may change what it gets.
	Records(ctx context.Context, prefix, after string) (records []Record, next string, err error)

	// Notify brings a notification to another client of the store, whose store hands it
	// to [Engine].Post as it is. It does not block. Notifications may be lost, repeated
	// and reordered: who does not know that client, or cannot reach it, does
	// nothing. Where no notification ever arrives set [Options].Poll.
	Notify(client string, notification engine.Claim)

	// Guarantees is what the store promises. It is constant. Order, Modes and
	// SeesWaiters need not be filled in: the queue has them all.
	Guarantees() engine.Guarantees

	// Close ends this client. No other method runs then or will be called.
	Close() error
}

// Liveness is a [Store] that can tell whether a client is still there, so that the
// claims of one that is gone need not expire: the engine removes them in the
// next change in which they matter, and looks at once when a client ends that
// its claims wait for.
type Liveness interface {
	Store

	// Dead reports whether a client is gone for certain and for ever. What
	// cannot be found out is alive. It is called inside Change too, never for
	// this client.
	Dead(client string) bool

	// Await asks the store to call [Engine].Look for name, from a goroutine of
	// the store's, once client is Dead, unless that is after until (by the
	// store's clock), when this client's claim there has expired. It does not
	// block. A store may bound how many it awaits: renewals are the floor.
	Await(client, name string, until time.Duration)
}
