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
)

// Locker is a lock that programs had before.
type Locker func(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error

// both is how a new program locks a name while old ones still use a lock of theirs: see
// docs/migrating.md.
func both(ctx context.Context, locks *leasehold.Client, db *sql.DB, old Locker, name string, work func(context.Context) error) (err error) {
	lease, err := locks.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock()) }()
	return old(lease.Context(), db, name, work)
}

// AFleetChangesOver from an old lock, which may need a table.
func (k Kit) AFleetChangesOver(t *testing.T, table string, old Locker) {
	t.Parallel()
	url := k.Database(t)
	db := k.Connect(t, url)
	if _, err := db.ExecContext(testutil.Within(t), table); err != nil {
		t.Fatal(err)
	}
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
				if err := old(testutil.Within(t), db, "orders", work); err != nil {
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
				if err := both(testutil.Within(t), locks, db, old, "orders", work); err != nil {
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
