// Package records keeps queues in a directory: each in a record of its own, which is
// numbered files of two checksummed slots.
//
// What it promises: a change of a queue is one step, whoever else changes it, in
// whatever process of this kernel, and whoever is stopped or killed at any
// instruction meanwhile. One that is killed delays nobody; one that is stopped
// delays others of the same name by about Patience. What a name took goes within
// minutes of its last use, and its tickets rise all the same.
//
// What it cannot: outlive the machine. Queues are not synced, and what stands in
// files of another boot is an empty queue with a last ticket. Only a reserve of tickets is synced, so that they rise over a power cut. And it excludes
// nobody who may write in the directory: what was removed in use is noticed, by
// whoever changes a queue, within a tenth of a second of use.
//
//	queues/<hash>/<number>   one queue                              record.go, slots.go, codec.go
//	floor/<number>          tickets of queues that were removed    floor.go
//	reserve/<boot>.<number> tickets that may be granted           reserve.go
//	new/                    records about to be founded           found.go
//
// A change (records.go) takes the kernel lock (lock.go), reads, has the queue
// changed, writes the slot that is not the newest (content.go), looks whether the
// file is still the record, and unlocks: five system calls, since records stay
// open (cache.go). Why it can be interrupted anywhere is said at type record. What
// nobody uses any more goes by sweep.go.
package records
