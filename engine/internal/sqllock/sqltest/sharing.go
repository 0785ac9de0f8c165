package sqltest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/testutil"
)

// Sharing is a database that first tries to share a statement for every call.
type Sharing struct{ sqllock.Sharer }

// Join implements [sqllock.Database].
func (s Sharing) Join(ctx context.Context, r *engine.Request) (j sqllock.Joined, err error) {
	if r.Replaces != (engine.ID{}) {
		return s.Sharer.Join(ctx, r)
	}
	if err = s.Share(ctx, []sqllock.Call{{Request: r}}, func(_ int, c engine.Claim) { j.Claim = c }); err == nil && j.Claim.State == 0 {
		return s.Sharer.Join(ctx, r)
	}
	return j, err
}

// Batch implements [sqllock.Database].
func (s Sharing) Batch(ctx context.Context, rs []engine.Renewal) (cs []engine.Claim, err error) {
	if len(rs) == 1 && rs[0].Want == 0 {
		left := sqllock.Call{Request: &engine.Request{Name: rs[0].Name, ID: rs[0].ID}, Leave: true}
		if err = s.Share(ctx, []sqllock.Call{left}, func(_ int, c engine.Claim) { cs = append(cs, c) }); err != nil || cs != nil {
			return cs, err
		}
	}
	return s.Sharer.Batch(ctx, rs)
}

// Calls are the Joins of requests, or their Leaves.
func Calls(rs []engine.Request, leave bool) (calls []sqllock.Call) {
	for i := range rs {
		calls = append(calls, sqllock.Call{Request: &rs[i], Leave: leave})
	}
	return calls
}

// CallersOfManyNamesShareStatements, and each is answered for its own claim. made is how
// many statements there were so far.
func CallersOfManyNamesShareStatements(t *testing.T, e engine.Engine, made func() int) {
	t.Helper()
	const names, rounds = 48, 10
	ctx := testutil.Within(t)
	var all sync.WaitGroup
	before := made()
	for i := range names {
		all.Go(func() {
			var last uint64
			for range rounds {
				r := testutil.Exclusive(fmt.Sprint("name ", i))
				c, err := e.Join(ctx, r)
				if err != nil || c.State != engine.Held || c.ID != r.ID || c.Name != r.Name || c.Ticket <= last || c.TTL != r.WaitTTL || c.Contended {
					t.Errorf("Join of %s after %d: %+v, %v", r.Name, last, c, err)
					return
				}
				last = c.Ticket
				cs, err := e.Leave(ctx, []engine.Claim{c})
				if err != nil || len(cs) != 1 || cs[0].State != engine.Held || cs[0].Ticket != c.Ticket || cs[0].Limit != r.Limit {
					t.Errorf("Leave of %s: %+v, %v", r.Name, cs, err)
					return
				}
			}
		})
	}
	all.Wait()
	// The first Join of each makes its name alone.
	if n, most := made()-before, names+2*names*rounds/3; n > most {
		t.Errorf("%d statements for %d calls; at most %d", n, 2*names*rounds, most)
	}
}
