package etcdlock

import (
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// The waiter of a large semaphore waits for more claims than one transaction can compare. So none
// tells that it still waits, and the claim is marked: it may hold by then.
func TestAWaiterForManyIsMarked(t *testing.T) {
	t.Parallel()
	const limit = maxOps + 1
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, w.Client, nil)
	received := watch(t, e)
	holders := make([]engine.Claim, limit)
	for i := range holders {
		holders[i] = joins(t, e, permits("a", 1, limit), engine.Held)
	}
	waits := joins(t, e, permits("a", 1, limit), engine.Waiting)
	behind := joins(t, e, permits("a", 1, limit), engine.Waiting)
	w.before("Txn", func() {
		leave(t, e, holders[0]) // the farthest of them
		receives(t, received, as(waits, engine.Held))
	})
	if err := other.Revoke(within(t), "a", waits.Ticket, false); err != nil {
		t.Fatal(err)
	}
	l, err := other.Queue(within(t), "a")
	if err != nil || len(l.Claims) != limit+1 {
		t.Fatalf("%d are in the queue, want %d: %v", len(l.Claims), limit+1, err)
	}
	if got := l.Claims[limit-1]; got.Ticket != waits.Ticket || got.State != engine.Held || !got.Revoked {
		t.Errorf("the claim is %+v", got)
	}
	if got := l.Claims[limit]; got.Ticket != behind.Ticket || got.State != engine.Waiting {
		t.Errorf("the claim behind it is %+v", got)
	}
}

// A mark hangs on an etcd lease that was granted before. Should the revoker, or the member that
// has its request, stand still in between, that lease may end while the holder is trusted. The
// end of a short lease stands here for the time that passes.
func TestAMarkThatComesTooLateIsMadeAnew(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin, w := dial(t, clientv3.Config{}, server.Addr), dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	lasts := func(id clientv3.LeaseID) int64 {
		r, err := admin.TimeToLive(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		return r.GrantedTTL
	}
	before := attachedTo(t, e, "a")[0]
	var granted []clientv3.LeaseID // by the time that the mark is sent
	proof := int64(0)              // how long that lasts
	w.before("Txn", func() {
		leases, err := admin.Leases(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases.Leases {
			granted = append(granted, l.ID)
		}
		r, err := admin.Get(within(t), "leasehold/void/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range r.Kvs {
			proof = lasts(clientv3.LeaseID(kv.Lease))
			if _, err := admin.Revoke(within(t), clientv3.LeaseID(kv.Lease)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := other.Revoke(within(t), "a", held.Ticket, false); err != nil {
		t.Fatal(err)
	}
	marked := attachedTo(t, e, "a")[0]
	if slices.Contains(granted, marked) {
		t.Errorf("the mark hangs on lease %x, which was granted long before", marked)
	}
	if got, least := lasts(marked), lasts(before)+proof; got <= least {
		t.Errorf("the lease of the mark lasts %d s, want more than %d", got, least)
	}
	if got := renew(t, e, held); got.State != engine.Gone || !got.Revoked {
		t.Errorf("the marked claim is %v, revoked: %v", got.State, got.Revoked)
	}
}
