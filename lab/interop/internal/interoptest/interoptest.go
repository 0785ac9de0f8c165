// Package interoptest is what tests of locks shared with Java programs have in
// common: how to ask each side, and how to wait for what it comes to.
package interoptest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/interop/internal/java"
)

// Bound is for what a test only waits for: it is never part of a result.
const Bound = 45 * time.Second

// Within is a context that ends with the test, or after [Bound].
func Within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	t.Cleanup(cancel)
	return ctx
}

// Rounds is how often something is done: all times, and few in a short run.
func Rounds(all, few int) int {
	if testing.Short() {
		return few
	}
	return all
}

// Until waits for what no channel tells.
func Until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Bound); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// NameOf is a lock's name that no other test has.
func NameOf(t *testing.T) string { return strings.NewReplacer("/", ":", " ", "_").Replace(t.Name()) }

// Does has Java carry out a command that must succeed.
func Does(t *testing.T, th *java.Thread, command string, args ...string) string {
	t.Helper()
	a, err := th.Do(Within(t), command, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
	return a.Value
}

// Throws says what a command of Java's that must fail threw.
func Throws(t *testing.T, th *java.Thread, command string, args ...string) string {
	t.Helper()
	_, err := th.Do(Within(t), command, args...)
	var e *java.Exception
	if !errors.As(err, &e) {
		t.Fatalf("%s %v: %v instead of an exception", command, args, err)
	}
	return e.Class
}

// Answered waits for a command of Java's that was begun, however it ends.
func Answered(t *testing.T, c <-chan java.Answer) java.Answer {
	t.Helper()
	select {
	case a := <-c:
		return a
	case <-time.After(Bound):
		t.Fatal("no answer")
		return java.Answer{}
	}
}

// Done waits for a command of Java's that was begun and must succeed.
func Done(t *testing.T, c <-chan java.Answer) {
	t.Helper()
	if a := Answered(t, c); a.Err != nil {
		t.Fatalf("Java: %v", a.Err)
	}
}

// Client is one of ours, for the length of a test.
func Client(t *testing.T, eng engine.Engine, o *leasehold.Options) *leasehold.Client {
	t.Helper()
	c, err := leasehold.New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// Result is how a call of ours ended.
type Result struct {
	Lease *leasehold.Lease
	Err   error
}

// Asks begins a call of ours that may have to wait.
func Asks(t *testing.T, lock func(context.Context) (*leasehold.Lease, error)) <-chan Result {
	t.Helper()
	done := make(chan Result, 1)
	ctx := Within(t)
	go func() {
		l, err := lock(ctx)
		done <- Result{l, err}
	}()
	return done
}

// Got waits for a call of ours that must obtain.
func Got(t *testing.T, c <-chan Result) *leasehold.Lease {
	t.Helper()
	r := <-c // within the bound of its context
	if r.Err != nil {
		t.Fatalf("ours: %v", r.Err)
	}
	return r.Lease
}

// Lock begins Lock of a name.
func Lock(t *testing.T, c *leasehold.Client, name string) <-chan Result {
	t.Helper()
	return Asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.Lock(ctx, name) })
}

// RLock begins RLock of a name.
func RLock(t *testing.T, c *leasehold.Client, name string) <-chan Result {
	t.Helper()
	return Asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.RLock(ctx, name) })
}

// Refused says that somebody else holds a name: a call that waits so long (0: asks
// once) fails with ErrHeld. A server that answers too late is asked again: that says
// nothing of the name.
func Refused(t *testing.T, c *leasehold.Client, name string, wait time.Duration) {
	t.Helper()
	c = c.With(leasehold.LockOptions{Wait: wait})
	lock := c.Lock
	if wait == 0 {
		lock = c.TryLock
	}
	ctx := Within(t)
	l, err := lock(ctx, name)
	for errors.Is(err, leasehold.ErrUnavailable) && ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		l, err = lock(ctx, name)
	}
	if err == nil {
		l.Unlock()
		t.Errorf("%s was obtained while somebody else held it", name)
	} else if !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("%s: %v instead of ErrHeld", name, err)
	}
}

// Unlocked unlocks, which must succeed.
func Unlocked(t *testing.T, l *leasehold.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// Lost says that a lease ended without its holder's doing: its context has ended,
// and Unlock says so.
func Lost(t *testing.T, l *leasehold.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(Bound):
		t.Fatal("the holder was not told")
	}
	if err := l.Unlock(); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("unlocking what was lost: %v", err)
	}
}
