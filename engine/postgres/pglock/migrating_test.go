package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold"
)

// held is what programs did before: advisory, table.
type held func(ctx context.Context, pool *pgxpool.Pool, name string, work func(context.Context) error) error

// both is how a new program locks a name while old ones still lock it in their way: see
// docs/migrating.md.
func both(ctx context.Context, locks *leasehold.Client, old held, pool *pgxpool.Pool, name string, work func(context.Context) error) (err error) {
	lease, err := locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock()) }()
	return old(lease.Context(), pool, name, work)
}

// table has a row for who holds a name, which others delete when it is too old.
func table(ctx context.Context, pool *pgxpool.Pool, name string, work func(context.Context) error) error {
	owner := rand.Text()
	for {
		tag, err := pool.Exec(ctx, `INSERT INTO locks (lock_key, owner, count, update_time) VALUES ($1, $2, 1, now())
			ON CONFLICT (lock_key) DO UPDATE SET owner = $2, count = 1, update_time = now()
			WHERE locks.update_time < now() - interval '30 seconds'`, name, owner)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer pool.Exec(context.WithoutCancel(ctx), "DELETE FROM locks WHERE lock_key = $1 AND owner = $2", name, owner)
	return work(ctx)
}

// advisory has a lock of the server's, on a connection of its own.
func advisory(ctx context.Context, pool *pgxpool.Pool, name string, work func(context.Context) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return err
	}
	defer func() {
		// A session that could not unlock must not go back to the pool.
		if _, err := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", name); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	return work(ctx)
}

func TestWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]held{"from advisory locks": advisory, "from a table": table} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changeOver(t, old)
		})
	}
}

func changeOver(t *testing.T, old held) {
	url := database(t)
	pool := connect(t, url+"&pool_max_conns=8")
	do(t, pool, `CREATE TABLE locks (lock_key text PRIMARY KEY, owner text, count integer, update_time timestamptz)`)
	var inside, entered atomic.Int32
	work := func(context.Context) error {
		if inside.Add(1) != 1 {
			t.Error("two are inside")
		}
		entered.Add(1)
		inside.Add(-1)
		return nil
	}
	const each = 20
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range each {
				if err := old(within(t), pool, "orders", work); err != nil {
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
				if err := both(within(t), locks, old, pool, "orders", work); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := entered.Load(); n != 4*each {
		t.Errorf("%d were inside", n)
	}
}
