package handwritten_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold"
	"leasehold/cmd/leasehold/internal/handwritten"
	"leasehold/lab/servers"
)

// SETNX, then EXPIRE: killed between the two, the holder leaves a key that blocks for ever.
func TestKilledBetweenSetNXAndExpire(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	way := servers.ProxyTo(t, r.Addr)
	way.OnCommand(func(command string) {
		if command == "PEXPIRE" {
			dies(way)
		}
	})
	a := &handwritten.SetNXThenExpire{SetNX: handwritten.SetNX{Redis: client(t, way.Addr), Key: name}, Expiry: expiry}
	if err := a.Lock(within(t)); err == nil {
		t.Fatal("A did not die")
	}
	b := &handwritten.SetNXThenExpire{SetNX: handwritten.SetNX{Redis: client(t, r.Addr), Key: name}, Expiry: expiry}
	if err := b.Lock(soon(t, 3)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("B: %v: it was to wait in vain", err)
	}
	if left, err := r.Do("PTTL", name); err != nil || left != int64(-1) {
		t.Errorf("the key has an expiry of %v ms, %v: want none", left, err)
	}
	oursAfterADeath(t, r)
}

// SETNX and PEXPIRE in MULTI: each try of a waiter prolongs the key of a dead holder.
func TestWaitersProlongTheKeyOfTheDead(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	lockOf := func() *handwritten.MultiExec {
		return &handwritten.MultiExec{SetNX: handwritten.SetNX{Redis: client(t, r.Addr), Key: name}, Expiry: 4 * expiry}
	}
	lock(t, "A", lockOf()) // and nothing is heard of it any more
	if err := lockOf().Lock(soon(t, 12)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("B: %v: it was to wait in vain", err)
	}
	if left, err := r.Do("PTTL", name); err != nil || left.(int64) <= 0 {
		t.Errorf("after three expiries the key has %v ms left, %v", left, err)
	}
	oursAfterADeath(t, r)
}

// SET NX PX, released by GET and DEL: between the two the key expires and B takes it.
func TestTheKeyChangesBetweenGetAndDel(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	lockOf := func(owner, addr string) *handwritten.SetPXGetDel {
		return &handwritten.SetPXGetDel{SetPX: handwritten.SetPX{Redis: client(t, addr), Key: name, Owner: owner, Expiry: 5 * expiry}}
	}
	way := servers.ProxyTo(t, r.Addr)
	atDel, goOn := make(chan struct{}), make(chan struct{})
	way.OnCommand(func(command string) {
		if command == "DEL" {
			close(atDel)
			<-goOn
		}
	})
	a, b, c := lockOf("A", way.Addr), lockOf("B", r.Addr), lockOf("C", r.Addr)
	lock(t, "A", a)
	released := make(chan error, 1)
	go func() { released <- a.Unlock(context.Background()) }()
	select {
	case <-atDel:
	case err := <-released:
		t.Fatalf("A's unlock ended before its DEL: %v", err)
	}
	b.Expiry *= 60
	lock(t, "B", b)
	close(goOn)
	if err := <-released; err != nil {
		t.Errorf("A's unlock: %v", err)
	}
	if err := c.Lock(within(t)); err != nil { // long before the key of B expires
		t.Errorf("C: %v: it was to get in beside B, whose key A has deleted", err)
	}

	oursLate(t, r)
}

// oursLate: A is cut off until B holds. Its Unlock says so, and releases nothing.
func oursLate(t *testing.T, r *servers.RedisServer) {
	way := servers.ProxyTo(t, r.Addr)
	first, second := ours(t, "redis://"+way.Addr), oursTTL(t, "redis://"+r.Addr, 10*time.Second)
	late := hold(t, "A", first)
	way.BlackHole(true)
	held := hold(t, "B", second)
	way.BlackHole(false)
	if err := late.Unlock(); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("A's Unlock: %v, want ErrLost", err)
	}
	nobodyElse(t, first)
	nobodyElse(t, oursTTL(t, "redis://"+r.Addr, 10*time.Second))
	unlock(t, "B", held)
}

// A JSON value with owner and count: two read that it is free, and both write.
func TestTwoWriteTheSameJSON(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	lockOf := func(owner, addr string) *handwritten.JSONCount {
		return &handwritten.JSONCount{Redis: client(t, addr), Key: name, Owner: owner, Expiry: 60 * expiry}
	}
	way := servers.ProxyTo(t, r.Addr)
	atSet, goOn := make(chan struct{}), make(chan struct{})
	way.OnCommand(func(command string) {
		if command == "SET" {
			close(atSet)
			<-goOn
		}
	})
	a, b := lockOf("A", way.Addr), lockOf("B", r.Addr)
	got := make(chan error)
	go func() { got <- a.Lock(within(t)) }()
	<-atSet
	lock(t, "B", b)
	close(goOn)
	if err := <-got; err != nil {
		t.Errorf("A: %v: it was to get in beside B", err)
	}

	// Ours: the request of A is under way, B holds before it arrives, and A waits.
	slow := servers.ProxyTo(t, r.Addr)
	first, second := oursTTL(t, "redis://"+slow.Addr, 10*time.Second), oursTTL(t, "redis://"+r.Addr, 10*time.Second)
	slow.BlackHole(true)
	later := make(chan *leasehold.Lease)
	go func() {
		l, err := first.Lock(within(t), name)
		if err != nil {
			t.Errorf("A: %v", err)
		}
		later <- l
	}()
	held := hold(t, "B", second)
	slow.BlackHole(false)
	waiting(t, second)
	unlock(t, "B", held)
	if l := <-later; l != nil {
		if l.Token() <= held.Token() {
			t.Errorf("A has the token %v after B's %v", l.Token(), held.Token())
		}
		unlock(t, "A", l)
	}
}
