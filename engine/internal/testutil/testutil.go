// Package testutil is what tests of engines say often: one call that must be answered, one
// notification that must be heard. Whatever does not happen within [Patience] ends the test.
package testutil

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
)

// Patience bounds every wait for something that must happen.
const Patience = time.Minute

// Sized is how much of something a test does: full, or few with -short.
func Sized(full, few int) int {
	if testing.Short() {
		return few
	}
	return full
}

// Within is a context that ends with the test, or when patience does.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Until waits for what nothing tells.
func Until(t testing.TB, not string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(not)
		}
	}
}

// Exclusive asks for a lock, for a minute: longer than a server stands still between two calls.
func Exclusive(name string) engine.Request { return Lasting(name, time.Minute) }

// Lasting asks for a lock, for so long.
func Lasting(name string, ttl time.Duration) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: ttl}
}

// Join joins.
func Join(t testing.TB, e engine.Engine, r engine.Request) engine.Claim {
	t.Helper()
	c, err := e.Join(Within(t), r)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return c
}

// Joins joins, and must be told that state.
func Joins(t testing.TB, e engine.Engine, r engine.Request, want engine.State) engine.Claim {
	t.Helper()
	c := Join(t, e, r)
	if c.State != want {
		t.Fatalf("Join of %q: %v, want %v", r.Name, c.State, want)
	}
	return c
}

// Again asks once more for a claim that waits, as the core does where there is no order.
func Again(t testing.TB, e engine.Engine, c engine.Claim, ttl time.Duration) engine.Claim {
	t.Helper()
	return Join(t, e, engine.Request{Name: c.Name, ID: c.ID, Permits: c.Permits, Limit: c.Limit, WaitTTL: ttl})
}

// Leave gives one claim up, and says how it was found.
func Leave(t testing.TB, e engine.Engine, c engine.Claim) engine.State {
	t.Helper()
	cs, err := e.Leave(Within(t), []engine.Claim{c})
	if err != nil || len(cs) != 1 {
		t.Fatalf("Leave: %v %v", cs, err)
	}
	return cs[0].State
}

// Leaves gives one claim up, which must be found in that state.
func Leaves(t testing.TB, e engine.Engine, c engine.Claim, want engine.State) {
	t.Helper()
	if s := Leave(t, e, c); s != want {
		t.Fatalf("Leave of %q: it was %v, want %v", c.Name, s, want)
	}
}

// Renew renews one claim.
func Renew(t testing.TB, e engine.Engine, c engine.Claim, want time.Duration) engine.Claim {
	t.Helper()
	cs, err := e.Renew(Within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: want}})
	if err != nil || len(cs) != 1 {
		t.Fatalf("Renew: %v %v", cs, err)
	}
	return cs[0]
}

// Watch runs Watch for the length of a test, again whenever it breaks, and is what it
// reports. The subscription stands when it returns.
func Watch(t testing.TB, e engine.Engine) <-chan engine.Claim {
	t.Helper()
	received := make(chan engine.Claim, 10_000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		checked.New(e).KeepWatching(ctx, func(c engine.Claim) { received <- c }, func(error) {})
	}()
	t.Cleanup(func() { cancel(); <-done })
	Expect(t, received, func(c engine.Claim) bool { return c.Name == "" })
	return received
}

// Expect waits for a report, and passes over others.
func Expect(t testing.TB, received <-chan engine.Claim, is func(engine.Claim) bool) engine.Claim {
	t.Helper()
	for late := time.After(Patience); ; {
		select {
		case c := <-received:
			if is(c) {
				return c
			}
		case <-late:
			t.Fatal("not heard in time")
		}
	}
}
