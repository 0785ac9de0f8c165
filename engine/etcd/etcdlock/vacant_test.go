package etcdlock

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// keysRead is how many keys a client's transactions have read since the last time.
func (w *wire) keysRead() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.read
	w.read = 0
	return was
}

func TestAVacantQueueIsNotRead(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e, other := start(t, w.Client, nil), start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	leave(t, e, joins(t, e, exclusive("a"), engine.Held))
	w.keysRead()
	w.counted()
	for _, r := range []engine.Request{exclusive("a"), withoutWaiting(exclusive("a"))} {
		leave(t, e, joins(t, e, r, engine.Held))
	}
	if n, sent := w.keysRead(), w.counted()["Txn"]; n != 0 || sent != 4 {
		t.Errorf("two locks of a name that their client left vacant read %d keys in %d transactions", n, sent)
	}
	// Somebody came meanwhile: the same Join looks again. On a busy machine another request
	// of this client may come between, but not each time.
	for try := 1; ; try++ {
		first := joins(t, other, exclusive("a"), engine.Held)
		w.counted()
		second := joins(t, e, exclusive("a"), engine.Waiting)
		n := w.counted()["Txn"]
		if second.Ticket <= first.Ticket {
			t.Errorf("tickets %d and %d", first.Ticket, second.Ticket)
		}
		leave(t, other, first)
		leave(t, e, second)
		e.table.mu.Lock()
		if e.table.vacant["a"] {
			t.Error("a claim that was not alone left a vacant queue")
		}
		e.table.mu.Unlock()
		switch {
		case n == 2:
			return
		case n < 2 || try == 3:
			t.Fatalf("a Join whose queue was not vacant took %d transactions", n)
		}
		leave(t, e, joins(t, e, exclusive("a"), engine.Held))
	}
}

// A session keeps its Joins void in a vacant queue too.
func TestAVoidJoinFindsNoVacantQueue(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	leave(t, e, joins(t, e, exclusive("a"), engine.Held))
	r := exclusive("a")
	c := expected(t, e, &r)
	if _, err := w.Put(within(t), c.class.Session.voidKey, "", clientv3.WithLease(now(e).id)); err != nil {
		t.Fatal(err)
	}
	a := e.commit(within(t), &call{name: "a", op: e.occupying(c, now(e).id, 0), patience: e.bounds.most})
	if a.err != nil || a.succeeded {
		t.Errorf("a Join that is void: carried out %v, %v", a.succeeded, a.err)
	}
	e.drop(r.ID)
	leave(t, e, joins(t, e, exclusive("a"), engine.Held)) // which learns the key's revision
}

func TestFewVacantQueuesAreRemembered(t *testing.T) {
	var tb table
	tb.start(func(engine.Claim) {}, func(*class) {})
	for i := range 2 * maxVacant {
		r := exclusive(fmt.Sprint("n", i))
		c := &claim{alone: true}
		c.Request = r
		tb.vacate(c)
		if !tb.vacant[r.Name] {
			t.Fatal("the last is not remembered")
		}
	}
	if len(tb.vacant) > maxVacant {
		t.Errorf("%d names are remembered", len(tb.vacant))
	}
}

func withoutWaiting(r engine.Request) engine.Request {
	r.NoWait = true
	return r
}
