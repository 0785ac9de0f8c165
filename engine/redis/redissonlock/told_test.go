package redissonlock

import (
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// TestWhoWaitsIsNotifiedAfterAReconnect: a new connection listens to nothing by itself, and
// nobody asks for a channel twice.
func TestWhoWaitsIsNotifiedAfterAReconnect(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e, other := locks.Opened(t, "redis://"+p.Addr), locks.Opened(t, "redis://"+r.Addr)
	received := watch(t, e)
	first := join(t, other, exclusive("a"))
	c := join(t, e, exclusive("a"))
	mine := func(n engine.Claim) bool { return n.ID == c.ID }
	expect(t, received, mine) // it is listened to
	p.Reset()
	expect(t, received, func(n engine.Claim) bool { return n.Name == "" }) // it began again
	drain(received)
	leave(t, other, first)
	expect(t, received, mine)
}

// TestRevokedWriterWakesAllReaders: of a writer's end Redisson tells all that sleep.
func TestRevokedWriterWakesAllReaders(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	const channel = "redisson_rwlock:{a}"
	received := listening(t, r, channel)
	w := join(t, e, exclusive("a"))
	if err := e.Revoke(within(t), "a", w.Ticket, true); err != nil {
		t.Fatal(err)
	}
	only(t, r, received, channel, channel+" 1", channel+" 0")
	c := join(t, e, reader("a"))
	if err := e.Revoke(within(t), "a", c.Ticket, true); err != nil {
		t.Fatal(err)
	}
	only(t, r, received, channel, channel+" 0")
}

// TestTheRevokedAreNotifiedThoughSomebodyElseHolds: what is known of a former holder goes
// when the next one comes, but not that it was revoked.
func TestTheRevokedAreNotifiedThoughSomebodyElseHolds(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for _, k := range []Kind{Lock, Fenced, ReadWrite} {
		e, other := of(k, "").Opened(t, "redis://"+r.Addr), of(k, "").Opened(t, "redis://"+r.Addr)
		name := "of kind " + string(k)
		c := join(t, e, exclusive(name))
		if err := other.Revoke(within(t), name, c.Ticket, false); err != nil {
			t.Fatal(err)
		}
		do(t, r, "DEL", name) // as when its deadline passes
		if n := join(t, other, exclusive(name)); n.State != engine.Held {
			t.Fatalf("%s: the next is %v", k, n.State)
		}
		if c := renew(t, e, c, time.Minute); c.State != engine.Gone || !c.Revoked {
			t.Errorf("%s: it was revoked, and is %v, revoked: %v", k, c.State, c.Revoked)
		}
	}
}

// TestOnlyWhoWaitsIsListenedFor: others take who listens for waiting, and give up their
// turns for it; and what holds, or was replaced, is told of no release.
func TestOnlyWhoWaitsIsListenedFor(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr).(*Engine)
	waiting := func(what, name string, want ...engine.ID) {
		t.Helper()
		var got []engine.ID
		for _, c := range e.ears.On(e.channel(name)) {
			got = append(got, c.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: listened for %v, want %v", what, got, want)
		}
	}
	first := exclusive("a")
	program(t, r).lock("a", time.Minute)
	if c := join(t, e, first); c.State != engine.Waiting {
		t.Fatalf("joined as %+v", c)
	}
	waiting("it waits", "a", first.ID)
	second := exclusive("a")
	second.Replaces = first.ID
	if c := join(t, e, second); c.State != engine.Waiting {
		t.Fatalf("joined as %+v", c)
	}
	waiting("it was replaced", "a", second.ID)
	do(t, r, "DEL", "a")
	second.Replaces = engine.ID{}
	if c := join(t, e, second); c.State != engine.Held {
		t.Fatalf("joined as %+v", c)
	}
	waiting("it holds", "a")
}
