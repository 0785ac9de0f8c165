// Package mysqllock keeps queues in MySQL (5.7 and later) and MariaDB (10.6 and later).
// It is tested with MariaDB 10.11 and MySQL 9.7, with a replica of each.
//
// Claims are served first come, first served between all processes. An uncontended lock
// is two statements in all. Nothing tells a client of anything in these databases, so
// who waits looks: see Waiting.
//
// Each call is one procedure of the server's and one transaction: it locks the name's
// row, reads the queue in later statements, decides, commits, and then answers. No
// connection is held while a lock is held or waited for, and no client's round trip lies
// inside a row lock.
//
// # What it promises
//
//   - At most the limit hold, as long as the server keeps what it committed and its
//     clock does not step forward.
//   - Tokens rise over crash and restart: a ticket is the larger of the last one plus 1
//     and the server's clock in microseconds, and the highest ticket of names that were
//     forgotten is kept.
//   - A dead process's claims end by their TTL, by the server's clock in UTC. Nothing
//     sweeps them: whoever comes next does.
//
// What it cannot promise: the clock is the server's wall clock. A step forward ends
// early whatever has less than the step left, and its holder learns that at its next
// renewal, a third of a TTL later at most. A step back lets nobody hold for longer than
// asked for. A failover to a replica that missed a commit may grant twice, and tickets
// may fall if that server's clock is behind: say failover in the URL where an address
// may lead to another server one day, and the engine declares that. With semi-synchronous
// replication nothing that was answered is missing on the replica, as long as the primary
// waits for it; the engine cannot see whether it does or has given up to, and a primary
// that is cut off then grants beside the new one. A server that is set to read_only is
// refused; a replica that is not looks like any server, and must not be used.
//
// Where innodb_flush_log_at_trx_commit is not 1, or there is a binary log and sync_binlog
// is not 1 (MariaDB's default is 0), a crash of the machine may forget the last second:
// tokens are declared as fencing until the server forgets. A restored backup is a server
// that forgot.
//
// On a Galera cluster or with Group Replication, calls to two servers at once that
// concern one name change one row, so that one of them fails at its commit and is made
// again: by design. The tests ran on one node of Galera, where that happens too, and not
// on several, nor with Group Replication. Let all clients use one server, since each has
// a clock of its own.
//
// # Waiting
//
// A holder learns that somebody waits, or that it was revoked, at its next renewal. A
// claim that waits is looked at: the first two of a queue that moves every 20 ms, others
// half as often for each doubling of their place. Where nobody came to hold for a while,
// the next look is after up to a sixth of that while, and after half of it for others,
// 640 ms at most. So who waits behind holds of up to a quarter of a second learns of
// their end after 10 ms on average, and behind longer ones after 4 to 8 % of them, or a
// third of a second. All names of a client are looked at in one statement, at most 50
// times a second, and twice where all queues stand still. Such a look locks and writes
// nothing.
//
// # Connections
//
// [Open] makes a pool of its own, [New] takes yours (database/sql with
// github.com/go-sql-driver/mysql), with any settings of the driver. A call uses a
// connection for one statement, which has its arguments in it, so it works through
// proxies that share connections between statements. A caller who gives up is answered
// at once; its statement may wait on for a row for as long as innodb_lock_wait_timeout
// says, and for a table that is locked for as long as lock_wait_timeout says, which are
// 3 s in pools of our own. A third of a bounded pool is for renewals, so
// that calls which wait for a row that somebody else keeps locked leave those of other
// names a connection. So let a pool have three or more.
//
// Of a pool of Open's, from the first Join on, one connection is for renewals alone. A
// server that takes no more connections (1040, 1203, 1226) is waited for: by renewals with
// that one, by others until one of this client's comes free. A pool of the caller's keeps
// none, since several engines and the program may share it: there renewals wait too, and
// come first among this client's calls. Let it have as many idle connections as open ones.
//
// Isolation, sql_mode, completion_type, time zone and character set of a session do not
// matter. max_allowed_packet is 8 KB or more: batches are cut to fit. The server's binlog_format may be ROW or MIXED.
//
// # Tables
//
// Tables leasehold_names, leasehold_claims and leasehold_swept, a view leasehold_line
// for people, and procedures, in the database that the URL names. They are created on
// first use, if the user may (CREATE, CREATE VIEW, CREATE ROUTINE, INSERT), and procedures
// of an older version are replaced (ALTER ROUTINE), or by whom may, as often as one likes:
//
//	leasehold schema mysql | mysql locks
//
// Names are bytes (VARBINARY): no collation makes two of them one. A name that nobody
// used for a day is forgotten, as others join.
//
// Claim IDs are secret, since with one a claim can be ended. They are seen by whoever
// may read the claims table, the general log, or other users' statements (PROCESS).
//
// # The least a user needs
//
// Procedures run with the rights of who calls them. In a database locks that has nothing
// else:
//
//	GRANT EXECUTE ON locks.* TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON locks.leasehold_names TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON locks.leasehold_claims TO app;
//	GRANT SELECT, UPDATE ON locks.leasehold_swept TO app;
//
// and to look only, by SELECT * FROM the view:
//
//	GRANT SELECT ON locks.leasehold_line TO operator;
package mysqllock
