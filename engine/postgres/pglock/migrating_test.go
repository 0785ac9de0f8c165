package pglock

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"

	"leasehold/migrate"
)

// classic is a table with a row for the holder of a name. Others take the row over when it
// is too old.
type classic struct {
	db          *sql.DB
	name, owner string
}

func (l *classic) Lock(ctx context.Context) error {
	for {
		is, err := l.db.ExecContext(ctx, `INSERT INTO locks (lock_key, owner, count, update_time) VALUES ($1, $2, 1, now())
			ON CONFLICT (lock_key) DO UPDATE SET owner = $2, count = 1, update_time = now()
			WHERE locks.update_time < now() - interval '30 seconds'`, l.name, l.owner)
		if err != nil {
			return err
		}
		if n, _ := is.RowsAffected(); n == 1 {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *classic) Unlock(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, "DELETE FROM locks WHERE lock_key = $1 AND owner = $2", l.name, l.owner)
	return err
}

// advisory is a lock of the server's, on a connection of its own.
type advisory struct {
	db   *sql.DB
	name string
	conn *sql.Conn
}

func (l *advisory) Lock(ctx context.Context) (err error) {
	if l.conn, err = l.db.Conn(ctx); err != nil {
		return err
	}
	if _, err = l.conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", l.name); err != nil {
		l.discard() // the server may have granted it all the same
	}
	return err
}

func (l *advisory) Unlock(ctx context.Context) error {
	_, err := l.conn.ExecContext(ctx, "SELECT pg_advisory_unlock(hashtext($1))", l.name)
	if err != nil {
		l.discard()
		return err
	}
	return l.conn.Close()
}

// discard closes the session, which ends its locks, instead of giving it back to the pool.
func (l *advisory) discard() {
	_ = l.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = l.conn.Close()
}

// While a fleet changes over, a new program holds both.
func TestWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	const locks = `CREATE TABLE locks (lock_key text PRIMARY KEY, owner text, count integer, update_time timestamptz)`
	t.Run("from advisory locks", func(t *testing.T) {
		rows.AFleetChangesOver(t, locks, func(db *sql.DB, name string) migrate.Lock { return &advisory{db: db, name: name} })
	})
	t.Run("from a table", func(t *testing.T) {
		rows.AFleetChangesOver(t, locks, func(db *sql.DB, name string) migrate.Lock { return &classic{db, name, rand.Text()} })
	})
}
