package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// TestOneDamagedCounterDoesNotSpread: a master whose counter is near the end of all
// numbers is passed over while a majority remains; then a majority says what is wrong.
func TestOneDamagedCounterDoesNotSpread(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	const damaged = engine.MaxTicket - 2
	at := uint64(time.Now().Add(time.Hour).UnixMicro())
	spread := func(n int) {
		t.Helper()
		for i, r := range all {
			if c := counterOf(t, r, "a"); (c >= damaged) != (i < n) {
				t.Errorf("with %d damaged: the counter of master %d is %d", n, i+1, c)
			}
		}
	}
	var before engine.Claim
	for n := 1; n <= 2; n++ {
		do(t, all[n-1], "SET", e.keys("a")[1], record(damaged))
		for range 5 { // one ticket each would be the last
			e.clock.ahead.Add(-time.Hour.Microseconds()) // so that no proposal counts: phase 2 decides
			c := join(t, e, long("a"))
			if c.State != engine.Held || c.Ticket <= before.Ticket || c.Ticket > at {
				t.Fatalf("with %d damaged: %+v after %d", n, c, before.Ticket)
			}
			settled(t, e)
			if on := standsOn(t, all, c); on != 5 {
				t.Errorf("with %d damaged: it stands on %d", n, on)
			}
			if got := renew(t, e, c, time.Minute); got.State != engine.Held || got.Ticket != c.Ticket {
				t.Errorf("with %d damaged: renewed as %+v", n, got)
			}
			settled(t, e)
			leave(t, e, c)
			before = c
		}
		spread(n)
	}
	// A third: whether these or the others are wrong nobody knows.
	do(t, all[2], "SET", e.keys("a")[1], record(damaged))
	_, err := e.Join(within(t), long("a"))
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "more than a year ahead of the masters' clocks") ||
		!strings.Contains(err.Error(), e.keys("a")[1]) || !strings.Contains(err.Error(), all[0].Addr) || strings.Contains(err.Error(), all[3].Addr) {
		t.Errorf("with a majority damaged: %v", err)
	}
	spread(3)
	settled(t, e)
	for i, r := range all {
		if v := valueOf(t, r, "a"); v != nil {
			t.Errorf("it stands on master %d for nobody", i+1)
		}
	}
	// Two, and one that is down: it may come back.
	do(t, all[2], "DEL", e.keys("a")[1])
	if err := all[4].Kill(); err != nil {
		t.Fatal(err)
	}
	_, err = e.Join(within(t), long("a"))
	if err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "2 of 5 refuse") || !strings.Contains(err.Error(), "3 are needed") {
		t.Errorf("with two damaged and one down: %v", err)
	}
	// Names without it go on.
	if c := join(t, e, long("b")); c.State != engine.Held {
		t.Errorf("another name: %+v", c)
	}
}

// TestCountersThatAreAheadByLessAreFollowed: clocks of all masters were wrong by half a
// year, and are right again.
func TestCountersThatAreAheadByLessAreFollowed(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	ahead := uint64(time.Now().Add(far / 2).UnixMicro())
	for _, r := range all {
		do(t, r, "SET", e.keys("a")[1], record(ahead))
	}
	for i := range uint64(3) {
		c := join(t, e, long("a"))
		if c.State != engine.Held || c.Ticket != ahead+1+i {
			t.Errorf("%+v after %d", c, ahead+i)
		}
		settled(t, e)
		leave(t, e, c)
	}
}
