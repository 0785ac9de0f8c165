// Package fencesql checks fencing tokens in the transaction that writes, in PostgreSQL,
// MySQL and MariaDB. It imports no driver: the caller chooses one for database/sql, or
// pgx.
//
//	err := fencesql.PostgreSQL.Do(ctx, db, fence.Of(lease), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = $1 WHERE id = $2", n, id)
//		return err
//	})
//	if errors.Is(err, fence.ErrStale) {
//		return err // the lease was lost, somebody else was here: nothing was written
//	}
//
// Use [Dialect.Check] in a transaction that you began yourself, and [CheckPgx] in one of
// pgx.
//
// The table leasehold_marks has the marks, one row for each name; [Dialect.Schema] returns
// its SQL for your migrations. The check locks the name's row until the transaction ends.
// So a holder with a newer token waits, and sees the writes of this transaction. A holder
// with an older token that comes later is refused.
//
// # The same in one statement
//
// If each row of a table is guarded by a name of its own, the mark can be a column: fence
// BIGINT NOT NULL DEFAULT 0. That needs neither this package nor one more statement:
//
//	UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?
//
// with the token for both (a shared pass sets no fence). If the statement changed no row,
// no row has that id, or the token is stale, or, in MySQL, the row had these values
// already. Read the fence to tell them apart:
//
//	var mark leasehold.Token
//	err := db.QueryRowContext(ctx, "SELECT fence FROM stock WHERE id = ?", id).Scan(&mark) // sql.ErrNoRows
//	...
//	return pass.Check(mark) // a StaleError, or nil
//
// It fences the writes to this row, and no other write of the transaction. Call Pass.Valid
// first: the statement does not know permits from a lock.
//
// # What it costs, and what it cannot
//
// A check is one statement in PostgreSQL, and two in MySQL and MariaDB (which cannot
// return what they wrote in both). Exclusive passes of one name check one after the other,
// each for as long as its transaction lasts; they are holders of one lock, so there is
// only one. Shared passes check together, except the first of a name, which makes its row.
//
// A check may fail like any statement of its transaction; run the transaction again then:
//
//   - At the isolation levels repeatable read and serializable it may fail with a
//     serialization error.
//   - In MySQL and MariaDB, at their default level, two first shared checks at once may
//     fail with a deadlock error, even for two names.
//   - In every database two transactions may fail with a deadlock error that check two
//     names in opposite orders, or that both check first as shared and then as exclusive.
//
// A check lasts as long as its transaction. A rollback to an earlier savepoint undoes it.
// In MySQL and MariaDB a statement that commits by itself (ALTER, CREATE, DROP, TRUNCATE, LOCK
// TABLES) ends the check before it runs, without an error. No fence guards what follows.
//
// A check locks a row of one server. A cluster that writes on several nodes (Galera, Group
// Replication with several primaries) can admit a stale write through another node. Send all
// that a name guards to one node.
//
// A check locks a row, so it fails in a read-only transaction and on a replica.
//
// A row stays until you delete it. Deleting it forgets the mark: do that when the resource
// itself is gone.
package fencesql
