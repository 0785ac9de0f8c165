package fencesql

import (
	"context"
	"database/sql"
	"fmt"

	"leasehold"
	"leasehold/fence"
)

// Tx is a transaction of database/sql: *sql.Tx, or what wraps one. A *sql.DB is none,
// and must not be: the mark would be free again before the write.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
}

// Row is one row that was read, of database/sql or pgx.
type Row interface{ Scan(dest ...any) error }

// PgxTx is a transaction of pgx, such as pgx.Tx.
type PgxTx[R Row] interface {
	QueryRow(ctx context.Context, query string, args ...any) R
	Commit(ctx context.Context) error
}

// Check is nil if the pass is let in: then what the transaction writes comes before
// what anybody with a newer token can. On any error roll back.
//
// Errors: a fence.StaleError; fence.ErrPass; what the database says. Check comes first:
// what the transaction read before it may have been changed since by who had an older
// token. After statements that only write it is right too, but a transaction that has
// locked a row and now wants the mark, and one that does it the other way round, end in
// a deadlock.
func (d Dialect) Check(ctx context.Context, tx Tx, p fence.Pass) error {
	row := func(query string, args ...any) Row { return tx.QueryRowContext(ctx, query, args...) }
	switch d {
	case PostgreSQL:
		return check(p, postgresShare, row, func() Row { return row(postgresRaise, p.Name, int64(p.Raises())) })
	case MySQL:
		return check(p, mysqlShare, row, func() Row {
			if _, err := tx.ExecContext(ctx, mysqlRaise, p.Name, int64(p.Raises()), int64(p.Raises())); err != nil {
				return failed{err}
			}
			return row(mysqlRaised, p.Name)
		})
	}
	return fmt.Errorf("fencesql: %v is unknown: PostgreSQL and MySQL are known", d)
}

// CheckPgx is Dialect.Check in a transaction of pgx.
func CheckPgx[R Row](ctx context.Context, tx PgxTx[R], p fence.Pass) error {
	row := func(query string, args ...any) Row { return tx.QueryRow(ctx, query, args...) }
	return check(p, postgresShare, row, func() Row { return row(postgresRaise, p.Name, int64(p.Raises())) })
}

// Do runs write in a transaction in which the pass was let in, and commits it if write
// returned nil, else rolls back. An error of the commit itself does not say whether it
// happened.
func (d Dialect) Do(ctx context.Context, db *sql.DB, p fence.Pass, write func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fencesql: begin: %w", err)
	}
	defer tx.Rollback() // nothing, once committed
	if err := d.Check(ctx, tx, p); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fencesql: commit, which may have happened or not: %w", err)
	}
	return nil
}

// check locks the mark and compares. A shared pass shares the mark's row; where there
// is none to lock yet it makes one as an exclusive pass does, with 0: or a writer's
// first check could come between this check and what is done under it.
func check(p fence.Pass, share string, row func(string, ...any) Row, raise func() Row) error {
	if err := p.Valid(); err != nil {
		return err
	}
	mark := int64(-1)
	if p.Raises() == 0 {
		if err := row(share, p.Name).Scan(&mark); err != nil {
			return failedCheck(err)
		}
	}
	if mark < 0 {
		if err := raise().Scan(&mark); err != nil {
			return failedCheck(err)
		}
	}
	return p.Check(leasehold.Token(mark))
}

func failedCheck(err error) error {
	return fmt.Errorf("fencesql: the pass was not checked: roll back, and try again after a deadlock or a serialization failure "+
		"(Dialect.Schema makes the table of marks): %w", err)
}

// failed is a row that could not be read.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }
