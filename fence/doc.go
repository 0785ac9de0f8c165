// Package fence lets a resource refuse a holder that comes too late.
//
// No lock protects a resource from a holder that was stopped after it checked its lease.
// The name is granted to the next holder, which writes; then the first one continues and
// overwrites that. Only the resource can detect this, by the token that each writer shows.
// Tokens of exclusive leases of one name only rise: a token below one that the resource
// has seen belongs to a lease that is over. docs/fencing.md explains it from the
// beginning.
//
// A writer shows a [Pass]: which name, which token, exclusive or shared. A resource keeps
// a mark for each name: the highest exclusive token that it has seen. The rule:
//
//	exclusive   refused below the mark; raises the mark
//	shared      refused below the mark; never raises it
//	permits     always refused: no order among them means anything
//
// A refused writer gets a [StaleError], which is [ErrStale]. It is useless to try again
// with the same lease: throw away what was computed under it.
//
// A reader that will write back must show the pass when it reads, too: before the read and
// in one step with it. Otherwise the resource has not seen the new holder yet, and lets a
// stale one write between the new holder's read and its write.
//
// The check and the write must be one step. Otherwise an admitted write may still come
// after the next holder's. Each kind of resource has its way:
//
//   - fencesql checks in the transaction that writes, in PostgreSQL, MySQL and MariaDB,
//     through database/sql or pgx. It uses a table of marks or a column of your own table.
//   - redisfence (module leasehold/engine/redis) runs Redis commands in the same script as
//     the check.
//   - fencehttp sends the pass in a header; a server answers stale ones with 409.
//   - [Memory] checks in this process, for tests and for a server that is one process.
//
// # What it promises
//
// After a write with token t was admitted, no write with a lower token is, as long as the
// mark is kept. A mark in the same store as the data, written by the same transaction, is
// lost only together with the data. A cluster that writes on several nodes needs the care that
// package fencesql describes.
//
// # What it cannot promise
//
// A resource refuses late writers, not the first of two. A stale holder that writes before
// the next one has shown its token is not stale yet to the resource, and the next holder
// reads what it wrote. A lock promises no more than this order. A shared pass raises no mark: a
// stale writer may write while readers are there, until the next writer has come.
//
// Tokens must rise. [leasehold.Options] Require with engine.FencingMemory or better
// refuses an engine whose tokens mean nothing. Do not compare tokens of two names or of
// two engines: give each name its mark, and a resource that two names guard two marks. A
// resource does not see writers without a pass.
package fence
