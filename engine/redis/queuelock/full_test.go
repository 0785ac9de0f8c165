package queuelock

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
)

// TestAFullServer: other programs take every place of a server's maxclients. A connected
// client keeps its lease, locks and unlocks, and waits, though nobody gets a further
// connection. The subscriptions are lost, and their places taken too.
func TestAFullServer(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	url := "redis://" + r.Addr
	const ttl = 6 * time.Second // longer than a busy machine stops the holder for
	var renewals, refusals atomic.Int32
	client := func(seen func(leasehold.Event)) *leasehold.Client {
		t.Helper()
		locks, err := leasehold.New(open(t, url), &leasehold.Options{TTL: ttl, Observer: seen})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	lock := func(locks *leasehold.Client, name string) *leasehold.Lease {
		t.Helper()
		l, err := locks.Lock(within(t), name)
		if err != nil {
			t.Fatalf("Lock %q: %v", name, err)
		}
		return l
	}
	unlock := func(l *leasehold.Lease) {
		t.Helper()
		if err := l.Unlock(); err != nil {
			t.Fatalf("Unlock %q: %v", l.Name(), err)
		}
	}
	holder := client(func(e leasehold.Event) {
		if e.Kind == leasehold.EventRenewed && e.Name == "held" {
			renewals.Add(1)
		}
		if e.Kind == leasehold.EventEngineDown && e.Err != nil && strings.Contains(e.Err.Error(), "raise its maxclients") {
			refusals.Add(1)
		}
	})
	other := client(nil)
	held, theirs := lock(holder, "held"), lock(other, "theirs")
	for range 4 { // calls overlap
		atOnce(16, func(i int) { unlock(lock(holder, "own "+itoa(i))) })
	}

	do(t, r, "CONFIG", "SET", "maxclients", "1")
	do(t, r, "CLIENT", "KILL", "TYPE", "pubsub")
	before := renewals.Load()
	// Each waits for what the other holds, and neither can subscribe.
	waits := func(locks *leasehold.Client, name string) <-chan error {
		ended := make(chan error, 1)
		ctx := within(t)
		go func() {
			l, err := locks.Lock(ctx, name)
			if err == nil {
				err = l.Unlock()
			}
			ended <- err
		}()
		until(t, "nobody waits for "+name, func() bool {
			q, err := locks.Queue(ctx, name)
			return err == nil && len(q.Claims) == 2
		})
		return ended
	}
	forTheirs, forHeld := waits(holder, "theirs"), waits(other, "held")
	for range 100 { // in turn: see redisconn, which then connects anew
		unlock(lock(holder, "alone"))
	}
	until(t, "the holder does not renew three times", func() bool {
		if !held.Valid() {
			t.Fatalf("the lease was lost: %v", context.Cause(held.Context()))
		}
		return renewals.Load() >= before+3
	})
	until(t, "the observer does not hear why", func() bool { return refusals.Load() > 0 })
	unlock(theirs)
	unlock(held)
	for name, granted := range map[string]<-chan error{"theirs": forTheirs, "held": forHeld} {
		if err := ended(t, granted); err != nil {
			t.Errorf("who waited for %q: %v", name, err)
		}
	}
	if rejected, err := r.Info("rejected_connections"); err != nil || rejected == "0" {
		t.Errorf("nobody was refused (%v): nothing is tested", err)
	}
	if _, err := kit.Open(within(t), url); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "raise its maxclients") {
		t.Errorf("who comes new: %v", err)
	}
}
