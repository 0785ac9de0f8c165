package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"
)

// classic is a table in which a row is a lock. Whoever could insert it holds; who dies
// leaves it to whom looks at update_time.
func classic(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error {
	for {
		_, err := db.ExecContext(ctx, "INSERT INTO locks (lock_key, owner, count, update_time) VALUES (?, 'me', 1, NOW())", name)
		if err == nil {
			break
		}
		if code(err) != 1062 { // somebody else holds
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := work(ctx)
	_, del := db.ExecContext(context.WithoutCancel(ctx), "DELETE FROM locks WHERE lock_key = ?", name)
	return errors.Join(err, del)
}

// getLock pins a connection for as long as the lock is held or waited for.
func getLock(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var held sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 20)", name).Scan(&held); err != nil {
		return err
	}
	if held.Int64 != 1 {
		return errors.New("not within 20 s")
	}
	// A connection that is lost has unlocked: one that could not unlock must not go back
	// to the pool.
	defer func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", name); err != nil {
			discard(conn)
		}
	}()
	return work(ctx)
}

// While a fleet changes over, a new program holds both.
func TestWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	const table = `CREATE TABLE locks (lock_key VARCHAR(255) PRIMARY KEY, owner TEXT, count INT, update_time DATETIME)`
	t.Run("from the classic table", func(t *testing.T) { rows.AFleetChangesOver(t, table, classic) })
	t.Run("from GET_LOCK", func(t *testing.T) { rows.AFleetChangesOver(t, table, getLock) })
}
