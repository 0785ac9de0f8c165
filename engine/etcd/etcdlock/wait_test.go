package etcdlock

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// The claim ahead leaves after the Join has seen it and before the watch of it
// stands: the watch is silent for ever, and only the look at what it missed tells.
func TestClaimAheadLeavesBeforeItIsWatched(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	received := watch(t, e)
	holder := joins(t, other, exclusive("a"), engine.Held)
	w.before("Watch", func() { leave(t, other, holder) })
	mine := joins(t, e, exclusive("a"), engine.Waiting)
	receives(t, received, as(mine, engine.Held))
}

// What is watched first may be far back in the queue: who waits just ahead gives
// up, and then the holder leaves.
func TestWhoWaitsAheadGivesUp(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	holder := joins(t, other, exclusive("a"), engine.Held)
	ahead := joins(t, other, exclusive("a"), engine.Waiting)
	mine := joins(t, e, exclusive("a"), engine.Waiting)
	leave(t, other, ahead)
	leave(t, other, holder)
	receives(t, received, as(mine, engine.Held))
}

func TestAnyPermitThatIsGivenBackWakesTheFirstWaiter(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	for i := range 3 {
		var held []engine.Claim
		for range 3 {
			held = append(held, joins(t, other, permits("permits", 1, 3), engine.Held))
		}
		mine := joins(t, e, permits("permits", 1, 3), engine.Waiting)
		leave(t, other, held[i])
		receives(t, received, as(mine, engine.Held))
		leave(t, e, mine)
		for _, c := range held {
			leave(t, other, c)
		}
	}
}

// More holders than a waiter watches: one that is not watched leaves, and the
// next renewal tells.
func TestMorePermitsThanAreWatched(t *testing.T) {
	t.Parallel()
	const many = maxWatched + 10
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	var held []engine.Claim
	for range many {
		held = append(held, joins(t, other, permits("permits", 1, many), engine.Held))
	}
	mine := joins(t, e, permits("permits", 1, many), engine.Waiting)
	if got := renew(t, e, mine); got.State != engine.Waiting {
		t.Fatalf("all permits are taken, and the waiter is %v", got.State)
	}
	leave(t, other, held[many-1])
	if got := renew(t, e, mine); got.State != engine.Held {
		t.Fatalf("a permit is free, and the waiter is %v", got.State)
	}
}

// The server throws away the history that a watch would go on from, while the
// watch has no connection: it ends, and what it missed is found.
func TestHistoryIsCompactedUnderAWatch(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	proxy := servers.ProxyTo(t, server.Addr)
	admin := dial(t, clientv3.Config{}, server.Addr)
	other := start(t, admin.Client, nil)
	e := start(t, dial(t, clientv3.Config{}, proxy.Addr).Client, nil)
	received := watch(t, e)
	holder := joins(t, other, exclusive("a"), engine.Held)
	mine := joins(t, e, exclusive("a"), engine.Waiting)
	until(t, "the holder is watched", func() bool { return watchers(t, server) >= 2 })
	proxy.Refuse(true)
	proxy.Reset()
	leave(t, other, holder)
	var last int64
	for range 10 {
		r, err := admin.Put(within(t), "elsewhere", "")
		if err != nil {
			t.Fatal(err)
		}
		last = r.Header.Revision
	}
	if _, err := admin.Compact(within(t), last, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(false)
	// The subscription to notifications had to begin again, which says so, and then Renew is
	// the high-water mark.
	receives(t, received, engine.Claim{})
	until(t, "Renew says held", func() bool { return renew(t, e, mine).State == engine.Held })
	joins(t, other, exclusive("a"), engine.Waiting)
	if c := receives(t, received, as(mine, engine.Held)); !c.Contended {
		c = receives(t, received, as(mine, engine.Held))
		if !c.Contended {
			t.Errorf("somebody waits behind it, and it heard %+v", c)
		}
	}
}

// Somebody comes between a Join and its answer, and tells: the notification is the only one
// until the holder renews.
func TestNotificationComesBeforeTheAnswerToAJoin(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, admin.Client, nil)
	received := watch(t, e)
	r := exclusive("a")
	c := expected(t, e, &r)
	now, err := admin.Get(within(t), "nothing")
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(now.Header.Revision + 1)
	e.receive(&mvccpb.KeyValue{Key: []byte(e.keys.notification(e.name, c.key)), Value: []byte(text(contended, next))})
	held := joins(t, e, r, engine.Held)
	if held.Ticket != next {
		t.Fatalf("void: ticket %d, want %d", held.Ticket, next)
	}
	if c := receives(t, received, held); !c.Contended {
		t.Error("it was not told that somebody waits")
	}
}

// A notification that was left of the claim before is in nobody's way.
func TestNotificationOfTheClaimBeforeIsLeft(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	r := exclusive("a")
	c := expected(t, e, &r)
	if _, err := admin.Put(within(t), e.keys.notification(e.name, c.key), text(revoked, 1)); err != nil {
		t.Fatal(err)
	}
	held := joins(t, e, r, engine.Held)
	joins(t, other, exclusive("a"), engine.Waiting)
	for c := receives(t, received, held); !c.Contended; {
		c = receives(t, received, held)
	}
}

// A Renew takes the notification of its claim away, so that the next notification is news. One that fails
// has perhaps not done it: the next does.
func TestNotificationGoesThoughARenewFailed(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startWith(t, w.Client, nil, hedging)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held := joins(t, e, exclusive("a"), engine.Held)
	joins(t, other, exclusive("a"), engine.Waiting)
	for c := receives(t, received, held); !c.Contended; {
		c = receives(t, received, held)
	}
	w.refuse.Store(true) // each of those that are sent in turn
	if cs, err := e.Renew(within(t), []engine.Renewal{{Name: held.Name, ID: held.ID, Want: time.Minute}}); err == nil {
		t.Fatalf("void: it is answered: %v", cs)
	}
	w.refuse.Store(false)
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("it is %v", got.State)
	}
	r, err := admin.Get(within(t), e.keys.notifications(e.name), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || r.Count != 0 {
		t.Errorf("%d notifications are left, %v", r.Count, err)
	}
	arrive := w.holdBack() // a Renew that another member has answered meanwhile does no harm
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("it is %v", got.State)
	}
	if err := arrive(); err != nil {
		t.Error(err)
	}
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("it is %v after the first arrived", got.State)
	}
}

// One of several watches that began late is enough to look, whichever says so last.
func TestWhatAnyWatchMissedIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		late []bool
		look bool
	}{{[]bool{true}, true}, {[]bool{false}, false}, {[]bool{true, false}, true}, {[]bool{false, true}, true}, {[]bool{false, false}, false}} {
		b := beginning{of: len(c.late)}
		for i, late := range c.late {
			if got := b.began(late); got != (c.look && i == len(c.late)-1) {
				t.Errorf("%v: watch %d has it looked: %v", c.late, i, got)
			}
		}
	}
}
