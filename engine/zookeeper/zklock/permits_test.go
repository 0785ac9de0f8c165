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
