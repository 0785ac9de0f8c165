package etcdlock

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// opened is an engine whose first session is the one of its first claim.
func opened(t *testing.T, client *clientv3.Client) *Engine {
	t.Helper()
	e, err := newEngine(within(t), client, nil, hedging)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// staysHeld waits until a claim is renewed, and it holds then.
func staysHeld(t *testing.T, e *Engine, held engine.Claim) {
	t.Helper()
	until(t, "it is renewed", func() bool {
		got, err := e.Renew(within(t), []engine.Renewal{{Name: held.Name, ID: held.ID, Want: short}})
		if err == nil && got[0].State != engine.Held {
			t.Fatalf("its claim is %v", got[0].State)
		}
		return err == nil
	})
}

// anotherLeads has the first session believe that its lease is of a former term, and that it
// was proven long ago.
func anotherLeads(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.classes.Opened()[0].Session
	s.term, s.until = s.term-1, 0
}

// halfReplaced returns a claim of an engine's first session that has gone on with a new lease
// after a change of the leader. The claim has not yet: the request that attaches it was lost, and
// so are all until the caller resets w.refuse.
func halfReplaced(t *testing.T, w *wire, e *Engine, r engine.Request) engine.Claim {
	t.Helper()
	held := joins(t, e, r, engine.Held)
	former := now(e).id
	w.before("LeaseGrant", func() { w.refuse.Store(true) })
	anotherLeads(e)
	if _, err := e.Renew(within(t), []engine.Renewal{{Name: held.Name, ID: held.ID, Want: short}}); err == nil || now(e).id == former {
		t.Fatalf("void: the session's lease is %x, before %x, and Renew says %v", now(e).id, former, err)
	}
	return held
}

// The next beat attaches what a replacement has left.
func TestTheNextBeatAttachesWhatIsLeft(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := opened(t, w.Client)
	held := halfReplaced(t, w, e, lasting(exclusive("a"), 10*time.Second))
	w.refuse.Store(false)
	staysHeld(t, e, held)
}

// Somebody revokes the lease of a replacement before the claims are attached to it. They hang on
// the former one, which lives: the next beat makes a third one for them.
func TestARevokedReplacementStrandsNoClaim(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := opened(t, w.Client)
	held := halfReplaced(t, w, e, lasting(exclusive("a"), 10*time.Second))
	revoked := now(e).id
	if _, err := w.Revoke(within(t), revoked); err != nil {
		t.Fatal(err)
	}
	w.refuse.Store(false) // not before: a beat would attach it
	staysHeld(t, e, held)
	if id := now(e).id; id == 0 || id == revoked {
		t.Errorf("void: the lease of the session is %x, and %x was revoked", id, revoked)
	}
}

// The lease of a waiter is replaced when its turn comes. It learns of the turn then, and not by its
// next Renew.
func TestAWaiterIsNotifiedOfItsTurnThoughItsLeaseIsReplaced(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := opened(t, dial(t, clientv3.Config{}, server.Addr).Client)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held := joins(t, other, exclusive("a"), engine.Held)
	waits := joins(t, e, exclusive("a"), engine.Waiting)
	former := now(e).id
	anotherLeads(e)
	leave(t, other, held)
	receives(t, received, as(waits, engine.Held))
	if now(e).id == former {
		t.Error("void: the lease was not replaced")
	}
}

// The void key of a session goes on with the lease that replaces another: it would end with the
// former one, and a Join that was sent before it was written would count again.
func TestTheVoidKeyHangsOnTheReplacement(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := opened(t, w.Client)
	left, held := joins(t, e, exclusive("left"), engine.Held), joins(t, e, exclusive("a"), engine.Held)
	w.refuse.Store(true)
	if _, err := e.Leave(within(t), []engine.Claim{left}); err == nil {
		t.Fatal("void: the Leave was answered")
	}
	w.refuse.Store(false)
	until(t, "the void key is written", func() bool { return now(e).void != 0 })
	former := now(e).id
	anotherLeads(e)
	staysHeld(t, e, held)
	key, err := w.Get(within(t), first(e).voidKey)
	if err != nil || len(key.Kvs) != 1 {
		t.Fatalf("%v, %v", key, err)
	}
	if on := clientv3.LeaseID(key.Kvs[0].Lease); on != now(e).id || on == former {
		t.Errorf("the void key hangs on %x, the lease is %x and was %x", on, now(e).id, former)
	}
}

// A Join is repeated, and not answered either, while its claim is still to be attached: the
// claim is attached all the same.
func TestAClaimIsAttachedThoughItsJoinIsRepeated(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	r := exclusive("a")
	e := startWith(t, w.Client, nil, hedging)
	held := halfReplaced(t, w, e, r)
	w.refuse.Store(false)
	w.before("Txn", func() { w.before("Txn", func() { w.refuse.Store(true) }) })
	if got, err := e.Join(within(t), r); err == nil {
		t.Fatalf("void: the Join was answered: %v", got)
	}
	w.refuse.Store(false)
	s := first(e)
	if err := s.proving.lock(within(t)); err != nil {
		t.Fatal(err)
	}
	err := e.attachAll(within(t), s) // as the next beat does
	s.proving.unlock()
	if err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("its claim is %v", got.State)
	}
}

// Close ends what hangs on a former lease of a session too.
func TestCloseEndsClaimsThatAreNotAttachedYet(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startWith(t, w.Client, nil, hedging)
	halfReplaced(t, w, e, exclusive("a")) // and w.refuse stays: Close sends no transaction
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := dial(t, clientv3.Config{}, server.Addr).Get(within(t), "leasehold/line/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	if r.Count > 0 {
		t.Errorf("%d claims are left", r.Count)
	}
}

// A Renew whose context never ends returns when the engine is closed, though etcd says nothing
// and the connection is the caller's.
func TestACallUnderWayReturnsAfterClose(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startUsual(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	defer server.Cont()
	w.counted()
	returned := make(chan error, 1)
	go func() {
		var err error
		for err == nil { // what was sent before the server stood still is answered
			_, err = e.Renew(context.WithoutCancel(t.Context()), []engine.Renewal{{Name: held.Name, ID: held.ID, Want: short}})
		}
		returned <- err
	}()
	until(t, "it is sent", func() bool { return w.counted()["Txn"] > 0 })
	if err := e.Close(); err == nil {
		t.Error("void: etcd answered")
	}
	select {
	case <-returned:
	case <-within(t).Done():
		t.Error("it goes on")
	}
}
