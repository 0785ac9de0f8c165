// Package optimistic changes a row without locking it. It reads the row with its version,
// computes, and writes only if the version is still the same. Otherwise it begins again.
//
//	stock, err := optimistic.Update(ctx, nil, optimistic.Row[Stock]{
//		Read: func(ctx context.Context) (s Stock, err error) {
//			err = db.QueryRowContext(ctx, "SELECT n, version FROM stock WHERE id = $1", id).Scan(&s.N, &s.Version)
//			return s, err
//		},
//		Write: func(ctx context.Context, old, new Stock) (bool, error) {
//			return optimistic.Changed(db.ExecContext(ctx,
//				"UPDATE stock SET n = $1, version = version + 1 WHERE id = $2 AND version = $3", new.N, id, old.Version))
//		},
//	}, func(s Stock) (Stock, error) {
//		if s.N == 0 {
//			return s, errSoldOut
//		}
//		s.N--
//		return s, nil
//	})
//
// The table is yours, and so is the driver: database/sql with [Changed], pgx with
// [ChangedPgx].
//
// # When one statement is enough
//
// If the database can compute the new value, no attempt can conflict, and you need only
// Changed from this package. This statement alone prevents overselling:
//
//	sold, err := optimistic.Changed(db.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE id = $1 AND n > 0", id))
//
// # What it promises
//
// Update writes a new row only if the row that change had read is still there. So no
// update is lost, even if a process is stopped or killed at any point, and without a lock,
// a token or a clock. Update makes Options.Attempts attempts at most, and none after ctx
// has ended. The pause between two attempts is random between 0 and a bound that doubles
// (full jitter).
//
// # What it cannot promise
//
//   - Order, or a turn for every caller: the quickest writer wins, and with enough writers
//     some run out of attempts with [ErrConflict]. docs/choosing.md has measured from
//     where on a lock is faster.
//   - Anything but the row. change runs once per attempt: it must only compute. Charge the
//     customer after Update, or under a lock.
//   - The effect of a Write whose answer was lost. Update returns its error and does not
//     try again: the row may be changed, and a second attempt would change it twice.
//
// Every writer must raise the version, those that use SQL by hand too. A comparison of the
// value instead of a version misses a change that was changed back.
//
// Read and Write must not be in one transaction at repeatable read, the default of MySQL
// and MariaDB. Its reads see the same snapshot for ever, so every attempt would be in
// vain, until Update gives up with [ErrConflict]. In PostgreSQL the first conflict ends
// such a transaction with 40001. It then refuses every further statement with 25P02, after
// any error, and the error of Update says so. Use no transaction around Read and Write, or
// one for each attempt.
package optimistic
