// Package fence lets a resource refuse a holder that comes too late.
//
// No lock protects a resource from a holder that was stopped after it looked at
// its lease: the name is granted to the next, the next writes, the first goes on
// and writes over it. Only the resource can see that, by the token that each
// writer shows: tokens of exclusive leases of one name only rise, so one that is
// lower than another which the resource has seen belongs to a lease that is over.
// docs/fencing.md tells it from the beginning.
//
// A [Pass] is what a writer shows: which name, which token, exclusive or shared.
// A mark is what the resource remembers of a name: the highest exclusive token that
// it was shown. The rule:
//
//	exclusive   refused below the mark; raises the mark
//	shared      refused below the mark; never raises it
//	permits     always refused: no order among them means anything
//
// Whoever is refused gets a [StaleError], which is [ErrStale]. Trying again with the
// same lease is useless; what was computed under it must be thrown away.
//
// Whoever reads what they will write back shows the pass when reading, too, before the
// read and in one step with it. Else the resource has seen nobody newer yet, and lets a
// stale holder write between the new one's read and its write.
//
// The check and the write must be one step, or the write of a pass that was let in
// may still come after the next one's. So there is a way for each kind of resource:
//
//   - fencesql: in the transaction that writes, in PostgreSQL, MySQL and MariaDB, by
//     database/sql or pgx, with a table of marks or a column of your own table.
//   - redisfence (module leasehold/engine/redis): commands that Redis carries out in
//     the same script as the check.
//   - fencehttp: the pass travels in a header; a server answers stale ones with 409.
//   - [Memory]: in this process, for tests and for a server that is one process.
//
// # What it promises
//
// Once a write with token t was let in, no write with a lower token is, as long as the
// mark is kept. A mark that is in the same store as the data, written by the same
// transaction, is lost only together with it.
//
// # What it cannot promise
//
// It refuses the late, and lets the first of two in: a stale holder that comes before
// the next one has shown its token is not stale yet to the resource, and what it
// writes is what the next one reads. That is the order a lock is for. A shared pass
// raises no mark: a stale writer may write while readers are there, until the next
// writer has come.
//
// Tokens must rise: [leasehold.Options] Require with engine.FencingMemory or better
// refuses an engine whose tokens mean nothing. Tokens of two names must not be
// compared, nor those of two engines: give each name its mark, and a resource that is
// guarded by two names two marks. Whoever writes without a pass is not seen.
package fence
