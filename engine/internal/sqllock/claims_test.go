package sqllock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// answering is a database whose answers are given.
type answering struct {
	Database
	claim engine.Claim
	err   error
	calls func() // while a call is under way
}

func (a *answering) Join(_ context.Context, r *engine.Request) (Joined, error) {
	a.calls()
	c := a.claim
	c.Name, c.ID = r.Name, r.ID
	return Joined{Claim: c}, a.err
}

func (a *answering) Batch(_ context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	a.calls()
	c := a.claim
	c.Name, c.ID = rs[0].Name, rs[0].ID
	return []engine.Claim{c}, a.err
}

// A claim counts from the beginning of its Join until nobody renews it any more: what takes
// the connection of renewals meanwhile might cost a lease.
func TestClaimsThatMayHaveToBeRenewed(t *testing.T) {
	held := engine.Claim{State: engine.Held, Permits: 1, Limit: 1, Ticket: 1, TTL: time.Hour}
	r := engine.Request{Name: "a", ID: engine.ID{1}}
	for _, c := range []struct {
		name          string
		answer        engine.Claim
		err           error
		call          func(*Engine, context.Context)
		during, after bool
	}{
		{"a Join", held, nil, joining(r), true, true},
		{"a Join that is not granted", engine.Claim{State: engine.Gone}, nil, joining(r), true, false},
		{"a Join without an answer", held, errors.New("cut off"), joining(r), true, false},
		{"a renewal, of a claim that was adopted", held, nil, renewing(r), false, true},
		{"a renewal of what is gone", engine.Claim{State: engine.Gone}, nil, func(e *Engine, ctx context.Context) {
			e.claims.keep(r.ID, time.Hour)
			renewing(r)(e, ctx)
		}, true, false},
		{"a Leave", held, nil, func(e *Engine, ctx context.Context) {
			e.claims.keep(r.ID, time.Hour)
			_, _ = e.Leave(ctx, []engine.Claim{{Name: r.Name, ID: r.ID}})
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &answering{claim: c.answer, err: c.err}
			e := New(d, new(Claims), 0, 0, Guarantees(false, false))
			d.calls = func() {
				if one := !e.claims.atMost(0); one != c.during {
					t.Errorf("during the call it counts: %v", one)
				}
			}
			c.call(e, t.Context())
			if one := !e.claims.atMost(0); one != c.after {
				t.Errorf("after the call it counts: %v", one)
			}
		})
	}
}

func joining(r engine.Request) func(*Engine, context.Context) {
	return func(e *Engine, ctx context.Context) { _, _ = e.Join(ctx, r) }
}

func renewing(r engine.Request) func(*Engine, context.Context) {
	return func(e *Engine, ctx context.Context) {
		_, _ = e.Renew(ctx, []engine.Renewal{{Name: r.Name, ID: r.ID, Want: time.Second}})
	}
}

// A claim that ended by its TTL counts no more, and takes no memory once anybody has looked.
func TestAClaimCountsForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Claims
		c.keep(engine.ID{1}, time.Second)
		c.keep(engine.ID{2}, time.Minute)
		if c.atMost(1) || !c.atMost(2) {
			t.Error("two claims are not two")
		}
		time.Sleep(2 * time.Second)
		if !c.atMost(1) || c.atMost(0) {
			t.Error("after the TTL of one there is not one")
		}
		time.Sleep(time.Minute)
		if !c.atMost(0) || len(c.until) != 0 {
			t.Errorf("after both there are %d", len(c.until))
		}
	})
}
