package pglock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold"
)

// both is how a new program locks a name while old ones still use advisory locks: see
// docs/migrating.md.
func both(ctx context.Context, locks *leasehold.Client, pool *pgxpool.Pool, name string, work func(context.Context) error) (err error) {
	lease, err := locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock()) }()
	return old(lease.Context(), pool, name, work)
}

// old is what programs did before.
func old(ctx context.Context, pool *pgxpool.Pool, name string, work func(context.Context) error) error {
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
	url := database(t)
	pool := connect(t, url+"&pool_max_conns=8")
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
				if err := both(within(t), locks, pool, "orders", work); err != nil {
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
