package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
)

// both is how a new program locks a name while old ones still use a lock of theirs: see
// docs/migrating.md.
func both(ctx context.Context, locks *leasehold.Client, db *sql.DB, old locker, name string, work func(context.Context) error) (err error) {
	lease, err := locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock()) }()
	return old(lease.Context(), db, name, work)
}

// locker is a lock that programs had before.
type locker func(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error

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

func TestWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]locker{"from the classic table": classic, "from GET_LOCK": getLock} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			db := connect(t, url)
			do(t, db, `CREATE TABLE locks (lock_key VARCHAR(255) PRIMARY KEY, owner TEXT, count INT, update_time DATETIME)`)
			var inside, entered atomic.Int32
			work := func(context.Context) error {
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				entered.Add(1)
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				return nil
			}
			const each = 10
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					for range each {
						if err := old(within(t), db, "orders", work); err != nil {
							t.Error(err)
						}
					}
				})
				locks, err := leasehold.New(open(t, url), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer locks.Close()
				all.Go(func() {
					for range each {
						if err := both(within(t), locks, db, old, "orders", work); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if n := entered.Load(); n != 4*each {
				t.Errorf("%d were inside", n)
			}
			do(t, db, `DROP TABLE locks`) // nobody is left who uses it
		})
	}
}
