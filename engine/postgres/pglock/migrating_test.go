package pglock

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"
)

// table has a row for who holds a name, which others take over when it is too old.
func table(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error {
	owner := rand.Text()
	for {
		is, err := db.ExecContext(ctx, `INSERT INTO locks (lock_key, owner, count, update_time) VALUES ($1, $2, 1, now())
			ON CONFLICT (lock_key) DO UPDATE SET owner = $2, count = 1, update_time = now()
			WHERE locks.update_time < now() - interval '30 seconds'`, name, owner)
		if err != nil {
			return err
		}
		if n, _ := is.RowsAffected(); n == 1 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer db.ExecContext(context.WithoutCancel(ctx), "DELETE FROM locks WHERE lock_key = $1 AND owner = $2", name, owner)
	return work(ctx)
}

// advisory has a lock of the server's, on a connection of its own.
func advisory(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return err
	}
	defer func() {
		// A session that could not unlock must not go back to the pool.
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", name); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	return work(ctx)
}

// While a fleet changes over, a new program holds both.
func TestWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	const locks = `CREATE TABLE locks (lock_key text PRIMARY KEY, owner text, count integer, update_time timestamptz)`
	t.Run("from advisory locks", func(t *testing.T) { rows.AFleetChangesOver(t, locks, advisory) })
	t.Run("from a table", func(t *testing.T) { rows.AFleetChangesOver(t, locks, table) })
}
