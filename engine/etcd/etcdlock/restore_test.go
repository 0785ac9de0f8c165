package etcdlock

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// A backup brings back the key of a claim that has left, on a lease that lives:
// nobody would get past it.
func TestKeysThatComeBackWithABackupAreDeleted(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	stays := joins(t, e, exclusive("stays"), engine.Held)
	left := []engine.Claim{joins(t, e, exclusive("a"), engine.Held), joins(t, e, exclusive("b"), engine.Held)}
	backup, err := server.Backup()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range left {
		leave(t, e, c)
	}
	if err := server.Restore(backup); err != nil {
		t.Fatal(err)
	}
	until(t, "what had left has gone", func() bool {
		l, err := other.Queue(within(t), "b")
		return err == nil && len(l.Claims) == 0
	})
	if got := renew(t, e, stays); got.State != engine.Held {
		t.Errorf("a claim that stood in the backup and stands is %v", got.State)
	}
}

// A claim of since the backup has the key of one of before: its client must not take
// that for its own, nor may it stay.
func TestSlotComesBackWithABackup(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	former := joins(t, e, exclusive("a"), engine.Held)
	backup, err := server.Backup()
	if err != nil {
		t.Fatal(err)
	}
	leave(t, e, former)
	now := joins(t, e, exclusive("a"), engine.Held)
	if err := server.Restore(backup); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, now); got.State != engine.Gone {
		t.Errorf("the store has forgotten it, and it is %v with ticket %d after %d", got.State, got.Ticket, now.Ticket)
	}
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	until(t, "nobody is in the queue", func() bool {
		l, err := other.Queue(within(t), "a")
		return err == nil && len(l.Claims) == 0
	})
}

// The key of a claim that has left, found by a Join that has its slot, is not that
// Join's: with the restore that bumps the revision nothing else tells.
func TestJoinFindsTheKeyOfAnotherClaim(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	former := joins(t, e, exclusive("a"), engine.Held)
	c := e.table.get(former.ID)
	key, value := c.key, c.value
	leave(t, e, former)
	if _, err := admin.Put(within(t), key, value, clientv3.WithLease(now(e).id)); err != nil {
		t.Fatal(err)
	}
	r, err := admin.Get(within(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if now := joins(t, e, exclusive("a"), engine.Held); now.Ticket <= uint64(r.Header.Revision) {
		t.Errorf("ticket %d is that of a key of revision %d", now.Ticket, r.Kvs[0].CreateRevision)
	}
}

// A token is never granted that is not above what this client saw, whatever is put
// back: until the store has come that far again a Join is refused, in words.
func TestTokensDoNotFallWithABackup(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	backup, err := server.Backup()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		leave(t, e, joins(t, e, exclusive("a"), engine.Held))
	}
	last := joins(t, e, exclusive("a"), engine.Held)
	if err := server.Restore(backup); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, last); got.State != engine.Gone {
		t.Fatalf("void: it is %v", got.State)
	}
	refused := 0
	until(t, "the revision is above", func() bool {
		c, err := e.Join(within(t), exclusive("a"))
		if err == nil {
			if c.State != engine.Held || c.Ticket <= last.Ticket {
				t.Fatalf("%v with ticket %d after %d", c.State, c.Ticket, last.Ticket)
			}
			return true
		}
		refused++
		if !errors.Is(err, engine.ErrRefused) {
			t.Fatal(err)
		}
		r, err := admin.Get(within(t), "leasehold/line/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || r.Count != 0 {
			t.Fatalf("a refused Join left %d keys, %v", r.Count, err)
		}
		return false
	})
	if refused == 0 {
		t.Error("void: nothing was refused")
	}
}

// The void key comes back as it was: Joins are not refused for ever.
func TestVoidKeyComesBackWithABackup(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	backup, err := server.Backup()
	if err != nil {
		t.Fatal(err)
	}
	r := exclusive("a")
	w.lose.Store(true)
	if _, err := e.Join(within(t), r); err == nil {
		t.Fatal("void: the Join was answered")
	}
	leave(t, e, engine.Claim{Name: r.Name, ID: r.ID})
	until(t, "the void key is written", func() bool { return now(e).void != 0 && e.table.get(r.ID) == nil })
	if err := server.Restore(backup); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if _, err := admin.Put(within(t), "elsewhere", ""); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	joins(t, e, exclusive("a"), engine.Held)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}
