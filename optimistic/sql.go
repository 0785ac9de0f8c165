package optimistic

import (
	"errors"
	"fmt"
)

// Changed reports whether a statement of database/sql changed its row: it takes the
// results of ExecContext. More than one row is an error: the condition does not select one
// row, and all of them have been changed.
func Changed(result interface{ RowsAffected() (int64, error) }, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("optimistic: read the number of changed rows: the row was written or not; read it before you write again: %w", err)
	}
	return one(n)
}

// ChangedPgx is Changed for the results of Exec of pgx.
func ChangedPgx[T interface{ RowsAffected() int64 }](tag T, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	return one(tag.RowsAffected())
}

func one(n int64) (bool, error) {
	if n > 1 {
		return false, fmt.Errorf("optimistic: %d rows were changed: let the condition select one", n)
	}
	return n == 1, nil
}

// aborted explains PostgreSQL's 25P02: the transaction refuses every statement after one
// that failed, so no further attempt in it can succeed.
func aborted(err error) error {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && state.SQLState() == "25P02" {
		return fmt.Errorf("optimistic: all attempts are in one transaction, which an earlier error has ended: give each attempt its own transaction, or none: %w", err)
	}
	return err
}

// Serialization reports whether a database ended the transaction because of another one:
// SQLSTATE 40001 (serialization failure) or 40P01 (deadlock). Errors of pgx and lib/pq
// have a method SQLState. Drivers without it need a function of their own; for
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
