// Package mysqllock keeps queues in MySQL (5.7 and later) and MariaDB (10.6 and later). It
// is tested with MariaDB 10.11 and MySQL 9.7, with a replica of each.
//
// Claims are served first come, first served between all processes. An uncontended lock
// takes two statements in all. These databases send no notifications, so a client that
// waits has a doorbell: see Waiting.
//
// Each call is one procedure of the server's and one transaction: it locks the name's row,
// reads the queue in later statements, decides, commits, and then answers. A client holds
// no connection while it holds a lock. No round trip of a client lies inside a row lock.
//
// # What it promises
//
//   - At most the limit hold, as long as the server keeps what it committed and its clock
//     does not step forward.
//   - Tokens rise over crash and restart: a ticket is the larger of the last one plus 1
//     and the server's clock in microseconds. The server keeps the highest ticket of
//     forgotten names.
//   - A dead process's claims end by their TTL, by the server's clock in UTC. No task
//     sweeps them: the next call removes them.
//
// # What it cannot promise
//
// The clock is the server's wall clock. A step forward ends every claim that has less than
// the step left; its holder learns that at its next renewal, a third of a TTL later at
// most. After a step back nobody holds for longer than asked for.
//
// A failover to a replica that missed a commit may grant twice, and tickets may fall if
// that server's clock lags. Give failover in the URL if its address may lead to
// another server one day, and the engine declares that. With semi-synchronous replication
// the replica misses no commit that was answered, as long as the primary waits for it. The
// engine cannot see whether it does or has given up waiting, and a primary that is cut off
// then grants beside the new one. The engine refuses a server that is set to read_only. A
// replica without read_only looks like any server, and must not be used.
//
// A crash of the machine may forget the last second if innodb_flush_log_at_trx_commit is
// neither 1 nor MariaDB's 3, or there is a binary log and sync_binlog is not 1 (MariaDB's
// default is 0). The engine then declares fencing until the server forgets. A restored
// backup is a server that forgot.
//
// On a Galera cluster or with Group Replication, calls for one name to two servers at once
// change one row. One of them fails at its commit and is made again, by design. The tests
// ran on one node of Galera, where that happens too. They did not run on several, nor with
// Group Replication. Let all clients use one server, since each has a clock of its own.
//
// # Waiting
//
// A holder learns that somebody waits, or that it was revoked, at its next renewal.
//
// A client of [Open] has a doorbell while claims of it wait: two more connections, beside
// its pool. The first has a lock of the server's (GET_LOCK), by which others find it, and
// waits in the server for a lock that the second has. A client whose call lets a claim hold
// then ends the wait of that claim's client. That is a KILL QUERY, which needs no right for connections of the same user. The
// client then asks which of its claims hold.
//
// A ring can end nothing but the statement of a doorbell: the server finds the owner of the
// lock and ends its statement in one step, and that connection does nothing else. Numbers
// of connections are stored nowhere. A proxy gives connections other numbers, and may give
// the one behind to another client. Then the number of the greeting differs from
// CONNECTION_ID(), and the client has no doorbell. A proxy that forwards the greeting and
// shares connections nevertheless needs no-doorbell in the URL.
//
// Rings may be lost: nobody rings for clients of another user or on another server of a
// cluster. So claims poll all the same. With a doorbell that rang the last time they poll
// every third of a second, those behind the first two every second at the latest. A poll that finds what a ring should have told puts an
// end to that until the next ring.
//
// Without a doorbell, and with a pool of the caller's, polls are more frequent. The first two of a queue that moves are polled every 20
// ms, others half as often for each doubling of their place. If no claim became held for a
// while, the next poll comes after up to a sixth of that while, and after half of it for
// others, 640 ms at most. Package leasehold polls a waiting claim after a second at the latest. So a
// waiter behind holds of up to a quarter of a second learns
// of their end after 10 ms on average. Behind longer ones it learns of it after 4 to 8 %
// of them, or a third of a second. One statement polls all names of a client, at most 50
// times a second, and twice a second if all queues stand still. It locks and writes
// nothing.
//
// # Connections
//
// [Open] makes a pool of its own, [New] takes the caller's (database/sql with
// github.com/go-sql-driver/mysql), with any settings of the driver. A call uses a
// connection for one statement, which contains its arguments. So it works through proxies
// that share connections between statements. A caller that gives up gets its answer at
// once. Its statement may wait longer: for a row as innodb_lock_wait_timeout says, and for
// a locked table as lock_wait_timeout says. Both are 3 s in pools of Open.
//
// Joins and Leaves leave a third of a bounded pool to other calls (rounded down, and one
// connection of two). Some of them may wait for a row which another program keeps locked.
// Renewals of other names then have a connection all the same. Joins and Leaves of other
// names may find none, and wait for one. Let a pool have three or more.
//
// Renewals that are due together go in statements of up to 100, one after the other. Each waits
// for each of its rows: for three times innodb_lock_wait_timeout at most, and then it fails for
// all. So where another program keeps the row of one name locked for longer than a TTL, the leases
// of all names in that statement are lost. Other statements wait for it for a sixth to a third of
// the longest TTL, and a second at least. Then its connection is ended, and they go on.
// information_schema.INNODB_TRX shows that program's transaction: end it.
//
// In a pool of Open one connection is for renewals alone while there is a claim to renew. If a
// server takes no more connections (1040, 1203, 1226), renewals wait for that one, and
// other calls wait until one of this client's is free. A caller's pool reserves none,
// since several engines and the program may share it. There renewals wait too, and come
// first among this client's calls. Let it have as many idle connections as open ones.
//
// A client of Open takes at most max-conns connections (10), and the doorbell's two. Where its
// callers lock one after the other, these are four at most: one for its calls, one beside a renewal
// that is under way, and two for the doorbell while it waits. The second ends after a minute without a call, and the
// doorbell's 20 seconds after the last claim that waited. So let max_connections be four for each such
// process, and some for others. A server that is full is asked for a doorbell once a minute.
//
// Isolation, sql_mode, completion_type, time zone and character set of a session do not
// matter. max_allowed_packet is 8 KB or more: the engine cuts batches to fit. The server's
// binlog_format may be ROW or MIXED.
//
// # Tables
//
// The database of the URL has tables leasehold_names, leasehold_claims and
// leasehold_swept, a view leasehold_line for people, and procedures. A client creates them
// on first use, if its user may (CREATE, CREATE VIEW, CREATE ROUTINE, INSERT), and
// replaces procedures of an older version (ALTER ROUTINE). A user with the rights may do
// both as often as needed:
//
//	leasehold schema mysql | mysql locks
//
// Names are bytes (VARBINARY): no collation makes two of them one. Later Joins remove a
// name that nobody used for a day.
//
// With another prefix a database has a second set of these, whose locks are others. Names of
// procedures differ neither by case nor by accents, and those of tables do. So a client refuses
// a prefix that differs from one in use by these alone: app_ and App_. Where an older version did
// not, let one of the two have another prefix, and run the SQL of the other.
//
// Claim IDs are secret, since with one a claim can be ended. A user sees them who may read
// the claims table, the general log, or other users' statements (PROCESS).
//
// # The least a user needs
//
// Procedures run with the rights of their caller. In a database locks with no other
// tables:
//
//	GRANT EXECUTE ON locks.* TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON locks.leasehold_names TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON locks.leasehold_claims TO app;
//	GRANT SELECT, UPDATE ON locks.leasehold_swept TO app;
//
// and to inspect only, with SELECT * FROM the view:
//
//	GRANT SELECT ON locks.leasehold_line TO operator;
package mysqllock
