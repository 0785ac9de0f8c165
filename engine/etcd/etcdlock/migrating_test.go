package etcdlock

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"leasehold"
	"leasehold/lab/servers"
)

// While a fleet changes over, a program that holds both keeps out those with the
// old lock alone (as etcdctl lock makes it) and those with the new one alone.
func TestBothAreHeldWhileAFleetChangesOver(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	session := func() *concurrency.Session {
		s, err := concurrency.NewSession(dial(t, clientv3.Config{}, server.Addr).Client, concurrency.WithTTL(60))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	client := func() *leasehold.Client {
		c, err := leasehold.New(start(t, dial(t, clientv3.Config{}, server.Addr).Client, &Options{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	locks, newer := client(), client()
	older := concurrency.NewMutex(session(), "/locks/import")
	ctx := within(t)

	if err := older.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	before := older.Header().Revision // what it sends to the resource
	if err := older.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	old := concurrency.NewMutex(session(), "/locks/import")
	if err := old.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	l, err := locks.Lock(ctx, "import")
	if err != nil {
		t.Fatal(err)
	}
	if err := older.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		t.Errorf("who has the old lock alone gets it: %v", err)
	}
	if _, err := newer.TryLock(ctx, "import"); !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("who has the new one alone gets it: %v", err)
	}
	sent := int64(l.Token().Ticket()) // the token is too large, and a revision too old
	if sent <= before {
		t.Errorf("who holds both sends %d, not above the revision %d that was sent before", sent, before)
	}
	if err := errors.Join(l.Unlock(), old.Unlock(context.WithoutCancel(ctx))); err != nil {
		t.Error(err)
	}
	if err := older.TryLock(ctx); err != nil {
		t.Fatalf("both were given up: %v", err)
	}
	if after := older.Header().Revision; after <= sent {
		t.Errorf("who has the old lock alone sends the revision %d, and the resource has seen %d", after, sent)
	}
	l, err = newer.Lock(ctx, "import")
	if err != nil {
		t.Fatal(err)
	}
	if last := int64(l.Token().Ticket()); last <= sent {
		t.Errorf("who has the new one alone sends %d, and the resource has seen %d", last, sent)
	}
}
