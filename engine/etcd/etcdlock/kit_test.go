package etcdlock

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

const patience = testutil.Patience

var (
	within, watch      = testutil.Within, testutil.Watch
	join, joins, leave = testutil.Join, testutil.Joins, testutil.Leave
)

func exclusive(name string) engine.Request { return permits(name, engine.Max, engine.Max) }

// permits is a request for a TTL that no test lives to see the end of.
func permits(name string, n, limit int32) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Permits: n, Limit: limit, WaitTTL: short, TTL: time.Minute}
}

// lasting is a request with another TTL.
func lasting(r engine.Request, ttl time.Duration) engine.Request {
	r.TTL = ttl
	return r
}

// first is the session of the class that start has opened.
func first(e *Engine) *lifeline { return e.lives()[0] }

func now(e *Engine) known { return e.current(first(e)) }

// unproven forgets when a session was proven, as if the last keep-alive were long ago.
func unproven(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.classes.Opened() {
		c.Session.until = 0
	}
}

func expected(t testing.TB, e *Engine, r *engine.Request) *claim {
	t.Helper()
	c, err := e.expect(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func renew(t testing.TB, e engine.Engine, c engine.Claim) engine.Claim {
	t.Helper()
	return renewIn(t, e, c, patience)
}

// renewIn gives the engine that much time, which the core bounds by the TTL.
func renewIn(t testing.TB, e engine.Engine, c engine.Claim, bound time.Duration) engine.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	got, err := e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: short}})
	if err != nil || len(got) != 1 {
		t.Fatalf("Renew: %v, %v", got, err)
	}
	return got[0]
}

// hears waits for a notification of that claim in that state.
func receives(t testing.TB, received <-chan engine.Claim, want engine.Claim) engine.Claim {
	t.Helper()
	return testutil.Expect(t, received, func(c engine.Claim) bool { return c.ID == want.ID && c.State == want.State })
}

// as is a claim in another state.
func as(c engine.Claim, s engine.State) engine.Claim {
	c.State = s
	return c
}

// until asks until ok says true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func byTicket(claims []engine.Claim) {
	slices.SortFunc(claims, func(a, b engine.Claim) int { return cmp.Compare(a.Ticket, b.Ticket) })
}
