package etcdlock

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/kit"
)

const patience = kit.Patience

var (
	within, watch      = kit.Within, kit.Watch
	join, joins, leave = kit.Join, kit.Joins, kit.Leave
)

func exclusive(name string) engine.Request { return units(name, engine.Max, engine.Max) }

func units(name string, n, limit int32) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Units: n, Limit: limit, WaitTTL: short}
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

// hears waits for a note of that claim in that state.
func hears(t testing.TB, heard <-chan engine.Claim, want engine.Claim) engine.Claim {
	t.Helper()
	return kit.Expect(t, heard, func(c engine.Claim) bool { return c.ID == want.ID && c.State == want.State })
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
