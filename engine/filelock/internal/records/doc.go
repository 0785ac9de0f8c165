// Package records keeps queues in a directory: each in a record of its own, which is
// numbered files of two checksummed slots.
//
// # What it promises
//
// A change of a queue is one step for all processes of this kernel, even if a process is
// stopped or killed at any instruction meanwhile. A killed process delays no other; a
// stopped one delays others of the same name by about Patience. The files of a name go
// within minutes of its last use, and its tickets rise all the same. On Windows they stay.
//
// # What it cannot promise
//
// Queues do not outlive the machine: they are not synced, and a file of another boot is an
// empty queue with a last ticket. Only a reserve of tickets is synced, so that they rise
// over a power cut. The package excludes nobody who may write in the directory. A client
// that changes a queue notices within a tenth of a second of use that a file was removed.
//
//	lines/<hash>/<number>   one queue                             record.go, slots.go, codec.go
//	floor/<number>          tickets of queues that were removed   highwater.go
//	reserve/<boot>.<number> tickets that may be granted           reserve.go
//	new/                    records about to be founded           found.go
//
// A change (records.go) takes the kernel lock (lock.go), reads, has the queue changed,
// writes the older slot (content.go), checks that the file is still the record, and
// unlocks. That is five system calls, since records stay open (cache.go). Type record
// argues why it can be interrupted anywhere. sweep.go removes unused records.
package records
