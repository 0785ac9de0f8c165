package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/kit"
)

// AFullServerCostsNoLease: others take every connection that a server has, while this
// client has few and wants more. Its renewals and its other calls go on with those.
func (k Kit) AFullServerCostsNoLease(t *testing.T, url string) {
	t.Parallel()
	const leases, loops, rounds = 20, 6, 30
	e := k.open(t, k.More(url, k.Conns+"=8"))
	var all []engine.Renewal
	for i := range leases {
		c := kit.Joins(t, e, kit.Lasting(fmt.Sprint("lease ", i), time.Minute), engine.Held)
		all = append(all, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Minute})
	}
	kit.Renew(t, e, engine.Claim{Name: all[0].Name, ID: all[0].ID}, time.Minute)
	if taken := k.fill(t, url); taken == 0 {
		t.Fatal("the server was full before: mend this test")
	}
	var pairs atomic.Int64
	var looping sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	for i := range loops {
		looping.Go(func() {
			for ctx.Err() == nil {
				c, err := e.Join(ctx, kit.Exclusive(fmt.Sprint("pair ", i)))
				if err == nil {
					_, err = e.Leave(ctx, []engine.Claim{c})
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("a pair: %v", err)
				}
				pairs.Add(1)
			}
		})
	}
	for round := range rounds {
		want := pairs.Load() + loops
		cs, err := e.Renew(kit.Within(t), all)
		if err != nil || len(cs) != leases {
			t.Fatalf("round %d: %d of %d leases are renewed: %v", round, len(cs), leases, err)
		}
		for _, c := range cs {
			if c.State != engine.Held {
				t.Fatalf("round %d: %q is %v", round, c.Name, c.State)
			}
		}
		kit.Until(t, "the pairs do not go on", func() bool { return pairs.Load() >= want })
	}
	end()
	looping.Wait()
}

// fill takes connections until there are no more, and says how many.
func (k Kit) fill(t *testing.T, url string) (taken int) {
	t.Helper()
	db := k.Connect(t, k.More(url, k.Conns+"=100"))
	for ; taken < 100; taken++ {
		var conn *sql.Conn
		conn, err := db.Conn(kit.Within(t))
		if err != nil {
			return taken
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the server is never full: mend this test")
	return taken
}
