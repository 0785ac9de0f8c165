// Package fencesql checks fencing tokens in the transaction that writes, in PostgreSQL,
// MySQL and MariaDB. It needs no driver: database/sql is the caller's, and so is pgx.
//
//	err := fencesql.PostgreSQL.Do(ctx, db, fence.Of(lease), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = $1 WHERE id = $2", n, id)
//		return err
//	})
//	if errors.Is(err, fence.ErrStale) {
//		return err // the lease was lost, somebody else was here: nothing was written
//	}
//
// or [Dialect.Check] in a transaction that is there already, and [CheckPgx] in one of pgx.
//
// The marks are in a table, leasehold_marks, one row for each name; [Dialect.Schema]
// prints it for your migrations. The check locks the name's row until the transaction
// ends. So whoever has a newer token waits, and sees what was written; and whoever has
// an older one, and comes later, is refused.
//
// # The same in one statement
//
// A table whose rows are each guarded by a name of their own can have the mark in a
// column, fence BIGINT NOT NULL DEFAULT 0, and needs neither this package nor one more
// statement:
//
//	UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?
//
// with the token for both (a shared pass sets no fence). If no row was changed there is
// none with that id, or the token is stale, or, in MySQL, the row had these values
// already. Read the fence to tell them apart:
//
//	var mark leasehold.Token
//	err := db.QueryRowContext(ctx, "SELECT fence FROM stock WHERE id = ?", id).Scan(&mark) // sql.ErrNoRows
//	...
//	return pass.Check(mark) // a StaleError, or nil
//
// It fences what is written to this row, and nothing else of the transaction. Call
// Pass.Valid first: the statement does not know permits from a lock.
//
// # What it costs, and what it cannot
//
// One statement in PostgreSQL, two in MySQL and MariaDB (which cannot return what they
// wrote in both). Exclusive passes of one name check one after the other, as long as
// their transactions last; they are the holders of one lock, so there is one. Shared
// ones check together, but the first ever of a name, which makes its row.
//
// At the isolation levels repeatable read and serializable the check may fail with a
// serialization error, like any statement of such a transaction: run the transaction
// again. In MySQL and MariaDB, at their default level, two first shared checks at once may
// end in a deadlock error, even those of two names; and in every database two transactions
// that check two names in opposite orders, or both first as shared and then as exclusive.
// That is the same case.
//
// A check lasts as long as its transaction: a rollback to a savepoint before it undoes it.
// It locks a row, so it fails in a transaction that is read-only and on a replica.
//
// A row stays until it is deleted. Deleting it forgets the mark: do that when the
// resource itself is gone.
package fencesql
