package plainlock

import (
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// TestWhoWaitedAndHoldsIsNotTakenAnew: its Renew extends what it holds, and says that
// this is gone where it is, as any holder's does.
func TestWhoWaitedAndHoldsIsNotTakenAnew(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e, other := open(t, "redis://"+r.Addr), open(t, "redis://"+r.Addr)
	first := join(t, other, exclusive("a"))
	c := join(t, e, exclusive("a"))
	leave(t, other, first)
	for range 2 {
		if c = renew(t, e, c, time.Minute); c.State != engine.Held {
			t.Fatalf("it is free, and who waits is %v", c.State)
		}
	}
	do(t, r, "DEL", "a")
	if c := renew(t, e, c, time.Minute); c.State != engine.Gone {
		t.Errorf("its lock was deleted, and it is %v", c.State)
	}
}

// TestWhoJoinedAgainAndHoldsIsNotTriedForAgain: nor does it matter that it holds by a
// repeated Join.
func TestWhoJoinedAgainAndHoldsIsNotTriedForAgain(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e, other := open(t, "redis://"+r.Addr), open(t, "redis://"+r.Addr)
	first, again := join(t, other, exclusive("a")), exclusive("a")
	if c := join(t, e, again); c.State != engine.Waiting {
		t.Fatalf("it is taken, and who comes is %v", c.State)
	}
	leave(t, other, first)
	c := join(t, e, again)
	if c.State != engine.Held {
		t.Fatalf("it is free, and who asks again is %v", c.State)
	}
	do(t, r, "DEL", "a")
	if c := renew(t, e, c, time.Minute); c.State != engine.Gone {
		t.Errorf("its lock was deleted, and it is %v", c.State)
	}
}

// TestTheLastTicketOutlivesItsLock: by as much as the clock may step back.
func TestTheLastTicketOutlivesItsLock(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	c := join(t, e, exclusive("a"))
	for _, when := range []string{"joined", "renewed"} {
		if left := do(t, r, "PTTL", side+"n{a}").(int64); left < keep.Milliseconds() {
			t.Errorf("%s: the last ticket is forgotten in %d ms", when, left)
		}
		renew(t, e, c, time.Minute)
	}
}
