package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"leasehold/migrate"
)

// classic is a table in which a row is a lock. The program that could insert it holds.
type classic struct {
	db   *sql.DB
	name string
}

func (l *classic) Lock(ctx context.Context) error {
	for {
		_, err := l.db.ExecContext(ctx, "INSERT INTO locks (lock_key, owner, count, update_time) VALUES (?, 'me', 1, NOW())", l.name)
		switch code(err) {
		case 1062: // somebody else holds
		case 1213, 1205: // somebody else inserts or deletes that row: a deadlock, and no lock in time
		default:
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *classic) Unlock(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, "DELETE FROM locks WHERE lock_key = ?", l.name)
	return err
}

// getLock pins a connection for as long as the lock is held or waited for.
type getLock struct {
	db   *sql.DB
	name string
	conn *sql.Conn
}

func (l *getLock) Lock(ctx context.Context) (err error) {
	if l.conn, err = l.db.Conn(ctx); err != nil {
		return err
	}
	var held sql.NullInt64
	err = l.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 20)", l.name).Scan(&held)
	if err == nil && held.Int64 != 1 {
		err = errors.New("not within 20 s")
	}
	if err != nil {
		discard(l.conn) // the server may have granted it all the same
	}
	return err
}

func (l *getLock) Unlock(ctx context.Context) error {
	// A connection that is lost has unlocked: one that could not unlock must not go back
	// to the pool.
	if _, err := l.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", l.name); err != nil {
		discard(l.conn)
		return err
	}
	return l.conn.Close()
}

// While a fleet changes over, a new program holds both.
func TestWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	const table = `CREATE TABLE locks (lock_key VARCHAR(255) PRIMARY KEY, owner TEXT, count INT, update_time DATETIME)`
	t.Run("from the classic table", func(t *testing.T) {
		rows.AFleetChangesOver(t, table, func(db *sql.DB, name string) migrate.Lock { return &classic{db, name} })
	})
	t.Run("from GET_LOCK", func(t *testing.T) {
		rows.AFleetChangesOver(t, table, func(db *sql.DB, name string) migrate.Lock { return &getLock{db: db, name: name} })
	})
}
