// Package optimistic changes a row without locking it: read it with its version,
// compute, and write only if the version is still the same; if it is not, begin again.
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
// Where the new value can be computed by the database there is nothing to try again,
// and nothing here is needed but Changed. Overselling is cured by this alone:
//
//	sold, err := optimistic.Changed(db.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE id = $1 AND n > 0", id))
//
// # What it promises
//
// What change computed is written only over what it was computed from. So no update is
// lost, whoever is stopped or killed wherever, without a lock, a token or a clock. At
// most Options.Attempts are made, with a pause between two that is random between 0 and
// a bound that doubles (full jitter), and none after ctx has ended.
//
// # What it cannot promise
//
//   - Order, or a turn for everybody: who is quick wins, and under enough writers
//     somebody runs out of attempts with [ErrConflict]. docs/choosing.md has measured
//     from where on a lock is faster.
//   - Anything but the row. change runs once per attempt: it must only compute. Charge
//     the customer after Update, or under a lock.
//   - What a Write did whose answer was lost. Its error is returned, not tried again: the
//     row may be changed, and a second attempt would change it twice.
//
// Every writer must raise the version, those that use SQL by hand too. Comparing the
// value instead of a version misses that it was changed and changed back.
//
// Read and Write must not be in one transaction at repeatable read, the default of MySQL
// and MariaDB: its reads see the same snapshot for ever, so every attempt would be in
// vain, until it gives up with [ErrConflict]. In PostgreSQL the first conflict ends such a
// transaction with 40001, and every further statement in it, after any error, is refused
// with 25P02, which the error then says. Without a transaction around them, or with one for each attempt, they are right.
package optimistic
