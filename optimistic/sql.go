package optimistic

import (
	"errors"
	"fmt"
)

// Changed is whether a statement of database/sql changed its row: it takes what
// ExecContext returns. More than one row is an error: the condition does not name one
// row, and all of them have been changed.
func Changed(result interface{ RowsAffected() (int64, error) }, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("optimistic: written, or not: %w", err)
	}
	return one(n)
}

// ChangedPgx is Changed for what Exec of pgx returns.
func ChangedPgx[T interface{ RowsAffected() int64 }](tag T, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	return one(tag.RowsAffected())
}

func one(n int64) (bool, error) {
	if n > 1 {
		return false, fmt.Errorf("optimistic: %d rows were changed: the condition must name one", n)
	}
	return n == 1, nil
}

// aborted says what PostgreSQL's 25P02 means here: every statement after one that failed
// is refused with it, so that no further attempt in that transaction can succeed.
func aborted(err error) error {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && state.SQLState() == "25P02" {
		return fmt.Errorf("optimistic: attempts are made in one transaction, which an error has ended before: give each a transaction of its own, or none: %w", err)
	}
	return err
}

// Serialization reports whether a database ended the transaction because of another one:
// SQLSTATE 40001 (serialization failure) or 40P01 (deadlock), as errors of pgx and lib/pq
// say by a method SQLState. Drivers without that method need a function of their own; for
// github.com/go-sql-driver/mysql:
//
//	func(err error) bool {
//		my, ok := errors.AsType[*mysql.MySQLError](err)
//		return ok && (my.Number == 1213 || my.Number == 1020) // deadlock; read by another since
//	}
func Serialization(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && (state.SQLState() == "40001" || state.SQLState() == "40P01")
}
