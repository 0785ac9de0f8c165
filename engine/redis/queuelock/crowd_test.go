package queuelock

import (
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestWhatACrowdCosts: a queue of four times as many is joined and handed over, to each
// in turn, by four times as many commands of the server, and not by more. Each is
// renewed meanwhile.
func TestWhatACrowdCosts(t *testing.T) {
	t.Parallel()
	cost := func(n int) int64 {
		r := servers.Redis(t, nil)
		kit.Opened(t, "redis://"+r.Addr).Close() // teaches it the scripts, on which nothing depends
		e := open(t, "redis://"+r.Addr)
		before := redistest.CountCalls(do(t, r, "INFO", "commandstats").(string))
		claims := make([]engine.Claim, n)
		for i := range claims {
			q := exclusive("a")
			q.WaitTTL = 10 * time.Minute
			claims[i] = join(t, e, q)
		}
		for i := 0; i < n; i += 100 {
			var rs []engine.Renewal
			for _, c := range claims[i:min(n, i+100)] {
				rs = append(rs, engine.Renewal{Name: "a", ID: c.ID, Want: 10 * time.Minute})
			}
			if cs, err := e.Renew(within(t), rs); err != nil || len(cs) != len(rs) {
				t.Fatal(len(cs), err)
			}
		}
		for i, c := range claims {
			if s := leave(t, e, c); s != engine.Held {
				t.Fatalf("claim %d of %d is %v when its turn has come", i, n, s)
			}
		}
		return redistest.CountCalls(do(t, r, "INFO", "commandstats").(string)) - before
	}
	n := testutil.Sized(500, 100)
	few, many := cost(n), cost(4*n)
	t.Logf("%d commands for %d claims, %d for %d", few, n, many, 4*n)
	if many > 4*few+few/2 {
		t.Errorf("%d commands for %d claims, %d for %d", few, n, many, 4*n)
	}
}
