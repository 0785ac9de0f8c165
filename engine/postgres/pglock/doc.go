// Package pglock keeps queues in PostgreSQL, from version 12 on (tested with 15).
//
// Claims are served first come, first served between all processes. An uncontended
// lock is two statements in all, and a hand-over is the releaser's one statement:
// the server itself tells the next holder (NOTIFY), and that message is the lock.
// Its statements and messages do not grow with the number who wait. The server's work
// does with the number of clients in its database: up to version 15 at least, a
// notification wakes the backend of everybody who listens to anything there.
//
// Each call is one function of the server's and one transaction: it locks the name's
// row, reads the queue in later statements, decides, and commits. (Where a renewal has
// only a deadline to write it locks only that claim.) No connection is
// held while a lock is held or waited for, but one per client that listens; no
// client's round trip lies inside a row lock.
//
// # What it promises
//
//   - At most the limit hold, as long as the server keeps what it committed and its
//     clock does not step forward. Where synchronous_commit is off or local, these
//     transactions turn it on.
//   - Tokens rise over crash and restart: a ticket is the larger of the last one
//     plus 1 and the server's clock in microseconds, and the highest ticket of names
//     that were forgotten is kept.
//   - A dead process's claims end by their TTL, by clock_timestamp(). Nothing sweeps
//     them: whoever comes next does.
//
// What it cannot promise: the clock is the server's wall clock. A step forward ends
// early whatever has less than the step left, and its holder learns that at its next
// renewal, a third of a TTL later at most. A step back lets nobody hold for longer
// than asked for. A failover to a replica that missed a commit may grant twice, and
// tickets may fall if that server's clock is behind: say failover in the URL, or
// several hosts, and the engine declares that. With synchronous_standby_names the
// replica misses nothing that was answered; the engine cannot see whether it is set,
// and declares the same. fsync=off is declared as fencing until it forgets. A
// restored backup is a server that forgot.
//
// # Connections
//
// [Open] makes a pool of its own, [New] takes yours (github.com/jackc/pgx/v5). A call
// uses a connection for one statement. The listener has one connection beside the pool,
// made as the pool's are; when it is lost the library begins anew and looks at everything. A
// third of a pool is for renewals, so that calls which wait for a row that somebody else
// keeps locked leave those of other names a connection. So let a pool have three or more.
//
// Of a pool of Open's, from the first Join on, one connection is for renewals alone. A
// server that takes no more connections (53300) is waited for: by renewals with that one,
// by others until one of this client's comes free. A pool of the caller's keeps none,
// since several engines and the program may share it: there renewals wait too, and come
// first among this client's calls.
//
// Through PgBouncer in session mode everything works. In transaction mode LISTEN does
// not: the client notices when it is opened (or is told by ?poll, which spares it a
// second), [Engine.Listens] says so, and waiting claims are looked at, the first of a queue
// every 100 ms and others every second. It then prepares no statements. max_connections
// bounds the number of clients, each with its listener.
//
// Transactions must be READ COMMITTED, the server's default; another is refused.
//
// # Tables
//
// Schema leasehold has tables names, claims and swept, a view queue for people, and
// functions. They are created on first use, and functions of an older version are
// replaced, if the user may, or by whom may, at any time and as often as one likes:
//
//	leasehold schema postgres | psql ...
//
// Names are bytes (bytea): no collation makes two of them one. A name that nobody
// used for a day is forgotten, as others join.
//
// Claim IDs are secret, since with one a claim can be ended. They are seen by whoever
// may read the claims table, a log with the parameters of statements, or all of
// pg_stat_activity: that has the channels, and anybody may listen to a channel whose
// name they know.
//
// # The least a user needs
//
//	GRANT USAGE ON SCHEMA leasehold TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.names, leasehold.claims TO app;
//	GRANT SELECT, UPDATE ON leasehold.swept TO app;
//
// and to look only, by SELECT * FROM leasehold.line:
//
//	GRANT USAGE ON SCHEMA leasehold TO operator;
//	GRANT SELECT ON leasehold.line TO operator;
package pglock
