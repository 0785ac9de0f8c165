package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine/internal/testutil"
	"leasehold/migrate"
)

// Old is a lock that programs had before, of one name.
type Old func(db *sql.DB, name string) migrate.Lock

// AFleetChangesOver from an old lock, which may need a table.
func (k Kit) AFleetChangesOver(t *testing.T, table string, old Old) {
	t.Parallel()
	url := k.Database(t)
	db := k.Connect(t, url)
	if _, err := db.ExecContext(testutil.Within(t), table); err != nil {
		t.Fatal(err)
	}
	var inside, entered atomic.Int32
	work := func() error {
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
				ctx, lock := testutil.Within(t), old(db, "orders")
				if err := lock.Lock(ctx); err != nil {
					t.Error(err)
					continue
				}
				if err := errors.Join(work(), lock.Unlock(ctx)); err != nil {
					t.Error(err)
				}
			}
		})
		locks, err := leasehold.New(k.open(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		all.Go(func() {
			for range each {
				err := migrate.Both(testutil.Within(t), locks, "orders", old(db, "orders"),
					func(context.Context, *leasehold.Lease) error { return work() })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := entered.Load(); n != 4*each {
		t.Errorf("%d were inside", n)
	}
	if _, err := db.ExecContext(testutil.Within(t), "DROP TABLE locks"); err != nil { // nobody is left who uses it
		t.Error(err)
	}
}
