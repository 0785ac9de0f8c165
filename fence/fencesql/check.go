package fencesql

import (
	"context"
	"database/sql"
	"fmt"

	"leasehold"
	"leasehold/fence"
)

// Tx is a transaction of database/sql: *sql.Tx, or a wrapper of one. A *sql.DB is none,
// and must not be: the mark would be free again before the write.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
}

// Row is one row of a result, of database/sql or pgx.
type Row interface{ Scan(dest ...any) error }

// PgxTx is a transaction of pgx, such as pgx.Tx.
type PgxTx[R Row] interface {
	QueryRow(ctx context.Context, query string, args ...any) R
	Commit(ctx context.Context) error
}

// Check returns nil if the pass is admitted: then the writes of the transaction come
// before those of any newer token. Roll back on any error: a fence.StaleError,
// fence.ErrPass, or an error of the database.
//
// Check must come first: an older token may have changed what the transaction read before
// it. After statements that only write it is also right. But two transactions deadlock if
// one locks a row and then the mark, and the other does it the other way round.
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
	return fmt.Errorf("fencesql: %v is unknown; use PostgreSQL or MySQL", d)
}

// CheckPgx is Dialect.Check in a transaction of pgx.
func CheckPgx[R Row](ctx context.Context, tx PgxTx[R], p fence.Pass) error {
	row := func(query string, args ...any) Row { return tx.QueryRow(ctx, query, args...) }
	return check(p, postgresShare, row, func() Row { return row(postgresRaise, p.Name, int64(p.Raises())) })
}

// Do runs write in a transaction in which the pass was admitted. It commits if write
// returned nil, and otherwise rolls back. An error of the commit itself does not say
// whether the commit happened.
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
		return fmt.Errorf("fencesql: commit: it may have happened or not; read the data before you write again: %w", err)
	}
	return nil
}

// check locks the mark and compares. A shared pass shares the mark's row. If there is none
// to lock yet, it makes one as an exclusive pass does, with 0. Otherwise a writer's first
// check could come between this check and the work under it.
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
	return fmt.Errorf("fencesql: check the pass: %w; roll back, and try again after a deadlock or a serialization failure "+
		"(Dialect.Schema makes the table of marks)", err)
}

// failed is a row that could not be read.
type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }
