package plainlock

import (
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// TestWhoWaitedAndHoldsIsNotTriedForAgain: its Renew extends what it holds, and says that
// this is gone where it is, as any holder's does.
func TestWhoWaitedAndHoldsIsNotTriedForAgain(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e, other := open(t, "redis://"+r.Addr), open(t, "redis://"+r.Addr)
	first := join(t, other, exclusive("a"))
	c := join(t, e, exclusive("a"))
	leave(t, other, first)
	for range 2 {
		if c := renew(t, e, c, time.Minute); c.State != engine.Held {
			t.Fatalf("it is free, and who waits is %v", c.State)
		}
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

// TestWhoHoldsIsRenewedFirst: whatever waits may take its time.
func TestWhoHoldsIsRenewedFirst(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	kit.HeldFirst(t, r)
}

func TestWaitsAreExtended(t *testing.T) { t.Parallel(); kit.WaitsAreExtended(t, servers.Redis(t, nil)) }
