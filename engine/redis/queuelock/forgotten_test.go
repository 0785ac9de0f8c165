package queuelock

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold"
)

// What docs/guarantees.md says of a server that forgot: who held finds out by
// its next renewal, long before it would have stopped trusting by itself.
func TestForgottenHolderIsNotToldUntilItsTTLHasPassed(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	client := func() *leasehold.Client {
		locks, err := leasehold.New(newEngine(t, r.Addr), &leasehold.Options{TTL: 9 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	first, err := client().Lock(within(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); first.Remaining() < 7*time.Second; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never had its full TTL: %v", first.Remaining())
		}
	}
	do(t, r, "FLUSHALL")
	trusted := time.Now().Add(first.Remaining())
	next, err := client().TryLock(within(t), "x")
	if err != nil {
		t.Fatalf("forgotten, and not free: %v", err)
	}
	begin := time.Now()
	if !first.Valid() {
		t.Fatal("void: the first holder was told before there was a second")
	}
	<-first.Context().Done()
	if cause := context.Cause(first.Context()); !errors.Is(cause, leasehold.ErrLost) || !time.Now().Before(trusted) || !next.Valid() {
		t.Errorf("told of %v after %v, %v before its trust ended; the second: %v",
			cause, time.Since(begin), time.Until(trusted), next.Valid())
	}
	t.Logf("both held for %v of a TTL of 9s", time.Since(begin).Round(10*time.Millisecond))
}
