package sqltest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

// AFullServerCostsNoLease: others take every connection that a server has, while this
// client has few and wants more. Its renewals and its other calls go on with those.
func (k Kit) AFullServerCostsNoLease(t *testing.T, url string) {
	t.Parallel()
	const leases, loops = 20, 6
	rounds := 30
	if testing.Short() {
		rounds = 8
	}
	e := k.open(t, k.More(url, k.Conns+"=8"))
	var all []engine.Renewal
	for i := range leases {
		c := testutil.Joins(t, e, testutil.Lasting(fmt.Sprint("lease ", i), time.Minute), engine.Held)
		all = append(all, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Minute})
	}
	testutil.Renew(t, e, engine.Claim{Name: all[0].Name, ID: all[0].ID}, time.Minute)
	k.Fill(t, url)
	var pairs atomic.Int64
	var looping sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	for i := range loops {
		looping.Go(func() {
			for ctx.Err() == nil {
				c, err := e.Join(ctx, testutil.Exclusive(fmt.Sprint("pair ", i)))
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
		cs, err := e.Renew(testutil.Within(t), all)
		if err != nil || len(cs) != leases {
			t.Fatalf("round %d: %d of %d leases are renewed: %v", round, len(cs), leases, err)
		}
		for _, c := range cs {
			if c.State != engine.Held {
				t.Fatalf("round %d: %q is %v", round, c.Name, c.State)
			}
		}
		testutil.Until(t, "the pairs do not go on", func() bool { return pairs.Load() >= want })
	}
	end()
	looping.Wait()
}

// Fill takes connections until a server takes no more. Free gives them back.
func (k Kit) Fill(t testing.TB, url string) (free func()) {
	t.Helper()
	var taken []io.Closer
	free = sync.OnceFunc(func() {
		for _, c := range taken {
			c.Close()
		}
	})
	t.Cleanup(free)
	for len(taken) < 400 {
		c, err := k.Dial(testutil.Within(t), url)
		if err != nil && len(taken) > 0 {
			t.Logf("after %d: %v", len(taken), err)
			return free
		}
		if err != nil {
			t.Fatalf("the server was full before: mend this test: %v", err)
		}
		taken = append(taken, c)
	}
	t.Fatal("the server is never full: mend this test")
	return nil
}
