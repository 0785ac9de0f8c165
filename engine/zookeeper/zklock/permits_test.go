package zklock

import (
	"sync/atomic"
	"testing"

	"leasehold/engine"
)

// Who waits for permits watches the one before it, which writes to its node when it
// comes to hold. Where it does so between the list and the watch of who is behind, that
// write is never heard of, and a permit that is given back after it neither.
func TestTheOneBeforeComesToHoldBetweenListingAndWatching(t *testing.T) {
	s := zooKeeper(t)
	a, b, c := open(t, on(s)), open(t, on(s)), open(t, on(s))
	first, second := a.hold(t, want("x", 1, 2)), a.hold(t, want("x", 1, 2))
	received := b.notifications(t)
	before := b.wait(t, want("x", 1, 2))
	var struck atomic.Bool
	c.wire.before(func(op int32) {
		if op != opGetData || !c.watchesSomebody() || struck.Swap(true) {
			return
		}
		a.leave1(t, first)
		receive(t, received, heldNotification(before.ID)) // its write came before
		a.leave1(t, second)
	})
	got := c.join(t, want("x", 1, 2))
	if !struck.Load() {
		t.Fatal("the test struck at nothing")
	}
	if got.State != engine.Held {
		t.Errorf("a permit is free, and it is %v", got.State)
	}
}

// Who waits for permits watches the one before it, whose client writes to its node when it comes
// to hold. A client that is stopped does not: the next renewal of who waits sees its turn.
func TestAPermitIsHadBehindAClientThatIsStopped(t *testing.T) {
	s := zooKeeper(t)
	for name, between := range map[string]bool{"renewed after both left": false, "renewed between them": true} {
		t.Run(name, func(t *testing.T) {
			a, b, c := open(t, on(s)), open(t, on(s)), open(t, on(s))
			received := c.notifications(t)
			first, second := a.hold(t, want(name, 1, 2)), a.hold(t, want(name, 1, 2))
			b.wait(t, want(name, 1, 2)) // its client neither listens nor renews from now on
			waits := c.wait(t, want(name, 1, 2))
			a.leave1(t, first)
			if between {
				if got := c.renew(t, waits); got.State != engine.Waiting {
					t.Fatalf("two hold before it, and it is %v", got.State)
				}
				a.leave1(t, second) // which it hears of, as the first who does not hold
				receive(t, received, heldNotification(waits.ID))
				return
			}
			a.leave1(t, second)
			if got := c.renew(t, waits); got.State != engine.Held {
				t.Errorf("a permit is free, and it is %v", got.State)
			}
		})
	}
}

// A list is as long as its queue: a renewal of many that wait in it reads it once for all.
func TestARenewalOfWaitersForPermitsListsTheirQueueOnce(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	a.hold(t, want("x", 2, 3))
	a.wait(t, want("x", 2, 3))
	rs := make([]engine.Renewal, 2*atOnce)
	for i := range rs {
		c := b.wait(t, want("x", 2, 3))
		rs[i] = engine.Renewal{Name: c.Name, ID: c.ID, Want: b.usual}
	}
	b.wire.requests()
	got, err := b.Renew(within(t), rs)
	if err != nil || len(got) != len(rs) {
		t.Fatal(len(got), err)
	}
	if n := b.wire.requests()[opList]; n != 1 {
		t.Errorf("%d waiters: %d lists", len(rs), n)
	}
}
