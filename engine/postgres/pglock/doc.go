// Package pglock keeps queues in PostgreSQL, from version 12 on (tested with 15).
//
// Claims are served first come, first served between all processes. An uncontended lock
// takes two statements in all, and a hand-over takes one, that of the releaser: the server
// itself notifies the next holder (NOTIFY), and that message is the lock. Statements and
// messages do not grow with the number of waiters. The server's work grows with the number
// of clients in its database: up to version 15 at least, a notification wakes the backend
// of every client that listens to any channel there.
//
// Each call is one function of the server's and one transaction: it locks the name's row,
// reads the queue in later statements, decides, and commits. (A renewal that only writes a
// deadline locks only its claim.) A client holds no connection while it holds a lock or
// waits for one, except one for its listener. No round trip of a client lies inside a row
// lock.
//
// Callers share statements. When a client makes more calls at once than it has connections
// for, up to 32 Joins and Leaves of different names go in one transaction. It carries out
// those of names that nobody else wants, and waits for no lock. Every other call is made
// alone.
//
// A Join or Leave commits before it notifies others, in a second transaction of the same
// round trip. If the server ends in between, the notification is lost: the next waiter
// polls every second, so it holds about a second later.
//
// The server keeps notifications in one queue (8 GB) until every session that listens has read
// them, in any database. A session that listens and keeps a transaction open fills it. With a full
// queue each transaction that notifies fails at its commit. A renewal that lets another claim
// hold is then rolled back, with all renewals of its statement, and leases are lost.
// "leasehold doctor" warns of a queue that is half full.
//
// # What it promises
//
//   - At most the limit hold, as long as the server keeps what it committed and its clock
//     does not step forward. If synchronous_commit is off or local, these transactions
//     turn it on.
//   - Tokens rise over crash and restart: a ticket is the larger of the last one plus 1
//     and the server's clock in microseconds. The server keeps the highest ticket of
//     forgotten names.
//   - A dead process's claims end by their TTL, by clock_timestamp(). No task sweeps them:
//     the next call removes them.
//
// # What it cannot promise
//
// The clock is the server's wall clock. A step forward ends every claim that has less than
// the step left; its holder learns that at its next renewal, a third of a TTL later at
// most. After a step back nobody holds for longer than asked for.
//
// A failover to a replica that missed a commit may grant twice, and tickets may fall if
// that server's clock lags. Give failover in the URL, or several hosts, and the
// engine declares that. With synchronous_standby_names the replica misses no commit that
// was answered. The engine cannot see whether it is set, and declares the same. With
// fsync=off the engine declares fencing until it forgets. A restored backup is a server
// that forgot.
//
// # Tables in memory
//
// With ?unlogged=1m new tables are UNLOGGED: no commit waits for the disk. PostgreSQL empties
// such tables after a crash, and they are empty on a replica that becomes the primary. Every
// lease is lost then. Its holder may trust it for a TTL still, so no TTL is longer than that
// minute. A name that somebody asks for within a minute of the first call is held by a claim of
// nobody until then. People see it in the queue, and may revoke it. So a crash does not let two hold. A failover does while
// the former primary still answers others. The engine declares fencing until it forgets.
//
// # Connections
//
// [Open] makes a pool of its own, [New] takes the caller's (github.com/jackc/pgx/v5). A
// call uses a connection for one statement. The listener has one connection beside the
// pool, made like those of the pool. When that is lost, the engine makes another and
// checks every claim.
//
// Joins and Leaves leave a third of a pool to other calls (rounded down, and one connection
// of two). Some of them may wait for a row which another program keeps locked. Renewals of
// other names then have a connection all the same. Joins and Leaves of other names may find
// none, and wait for one. Let a pool have three or more.
//
// Renewals that are due together go in statements of up to 100, one after the other, and each waits
// for each of its rows. So where another program keeps the row of one name locked for longer than a
// TTL, the leases of all names in that statement are lost. Other statements wait for it for a sixth
// to a third of the longest TTL, and a second at least. Then it is cancelled, its connection is ended,
// and they go on. pg_stat_activity shows that program's transaction: end it.
//
// In a pool of Open one connection is for renewals alone while there is a claim to renew. If a
// server takes no more connections (53300), renewals wait for that one, and other calls
// wait until one of this client's is free. A caller's pool reserves none, since several
// engines and the program may share it. There renewals wait too, and come first among this
// client's calls.
//
// Sessions of a pool of Open set idle_session_timeout to 0. Without options in the URL they
// do the same with statement_timeout, lock_timeout and transaction_timeout. Behind a pooler they
// set nothing.
//
// Through PgBouncer in session mode all features work. In transaction mode LISTEN does
// not. The client finds that out when it opens; ?poll declares it and saves a second. Then
// [Engine.Listens] reports false, and the client polls for waiting claims: every 100 ms
// for the first of a queue, every second for others. It then prepares no statements.
// max_connections bounds the number of clients, each with its listener.
//
// Transactions must be READ COMMITTED, the server's default; the engine refuses any other
// level.
//
// # Tables
//
// Schema leasehold has tables names, claims and swept, a view line for people, functions
// and procedures. A client whose user may do so creates them on first use, and replaces
// functions of an older version. A user with the rights may do both at any time, as often
// as needed:
//
//	leasehold schema postgres | psql ...
//
// A transaction that stays open elsewhere keeps PostgreSQL from clearing away former
// versions of rows. The tables grow meanwhile, and a busy name does not get slower: its
// newest version is the first that a look-up finds.
//
// Names are bytes (bytea): no collation makes two of them one. Later Joins remove a name
// that nobody used for a day.
//
// Claim IDs are secret, since with one a claim can be ended. A user sees them who may read
// the claims table, a log with the parameters of statements, or all of pg_stat_activity.
// The last has the channels, and anybody may listen to a channel whose name they know.
//
// # The least a user needs
//
//	GRANT USAGE ON SCHEMA leasehold TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.names, leasehold.claims TO app;
//	GRANT SELECT, UPDATE ON leasehold.swept TO app;
//
// with ?unlogged also
//
//	GRANT INSERT ON leasehold.swept TO app;
//	GRANT SELECT, INSERT ON leasehold.memory TO app;
//
// and to inspect only, with SELECT * FROM leasehold.line:
//
//	GRANT USAGE ON SCHEMA leasehold TO operator;
//	GRANT SELECT ON leasehold.line TO operator;
package pglock
