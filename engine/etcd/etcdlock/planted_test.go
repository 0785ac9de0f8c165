package etcdlock

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"leasehold/engine"
	"leasehold/internal/servers"
)

// A transaction that tidies up is late: by then another claim has the key.
func TestLateTidyingOfAKeyThatIsUsedAgain(t *testing.T) {
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	e.table.mu.Lock()
	e.table.tidying = true // this test does
	e.table.mu.Unlock()
	r := exclusive("a")
	former := joins(t, e, r, engine.Held)
	key := e.table.get(r.ID).key
	e.abandon([]engine.Claim{former})
	arrive := w.holdBack()
	if err := e.tidyUp(within(t)); err == nil {
		t.Fatal("void: it was answered")
	}
	if err := e.tidyUp(within(t)); err != nil {
		t.Fatal(err)
	}
	next := joins(t, e, exclusive("a"), engine.Held)
	if e.table.get(next.ID).key != key {
		t.Fatal("void: it has another key")
	}
	if err := arrive(); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, next); got.State != engine.Held {
		t.Errorf("the next claim is %v", got.State)
	}
}

// What was read earlier and arrives later shows a claim waiting that holds.
func TestLateLineDoesNotUnsayAHold(t *testing.T) {
	k := keys{"p/"}
	r := exclusive("a")
	var all table
	all.known, all.keyed, all.slots = map[engine.ID]*claim{}, map[string]*claim{}, map[string]*slots{}
	c := all.expect(k, "me", &r, 0)
	mine := &mvccpb.KeyValue{Key: []byte(c.key), CreateRevision: 7, Version: 1}
	ahead := &mvccpb.KeyValue{Key: []byte(k.claim("a", engine.Max, engine.Max, "other", 0)), CreateRevision: 5, Version: 1}
	before := k.read(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{mine, ahead}, Count: 2})
	after := k.read(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{mine}, Count: 1})
	for i, step := range []struct {
		line   line
		want   engine.State
		became bool
	}{{before, engine.Waiting, false}, {after, engine.Held, true}, {before, engine.Held, false}, {after, engine.Held, false}} {
		if got, became := all.settle(c, step.line); got.State != step.want || became != step.became || got.Ticket != 7 {
			t.Errorf("step %d: %v with ticket %d, became held: %v; want %v", i, got.State, got.Ticket, became, step.want)
		}
	}
}

// The identifier that a member makes for a lease is taken: it makes another one.
func TestLeaseAlreadyExists(t *testing.T) {
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	w.fail("LeaseGrant", rpctypes.ErrGRPCLeaseExist)
	e := start(t, w.Client, nil)
	w.fail("LeaseGrant", rpctypes.ErrGRPCLeaseExist, rpctypes.ErrGRPCLeaseExist)
	r := exclusive("a")
	r.Detached, r.WaitTTL = true, e.ttl
	joins(t, e, r, engine.Held)
}
