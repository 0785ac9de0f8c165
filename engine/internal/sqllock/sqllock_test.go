package sqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// database is one that only renews, and fails to if a name is "0" or "last".
type database struct{ Database }

var errRefused, errLater = errors.New("refused"), errors.New("refused later")

func (database) Batch(_ context.Context, rs []engine.Renewal) (cs []engine.Claim, err error) {
	for _, r := range rs {
		switch r.Name {
		case "0":
			err = errRefused
		case "last":
			err = errLater
		}
		cs = append(cs, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Held, Permits: 1, Limit: 1})
	}
	return cs, err
}

// Claims of a batch whose first call fails are renewed all the same, and nothing is said
// of those of that call.
func TestACallThatFailsIsNotTheEndOfABatch(t *testing.T) {
	e := New(database{}, new(Claims), 0, 0, Guarantees(false, false))
	const more = 20
	var rs []engine.Renewal
	for i := range Chunk + more {
		rs = append(rs, engine.Renewal{Name: fmt.Sprint(i), ID: engine.NewID(), Want: time.Second})
	}
	got, err := e.Renew(t.Context(), rs)
	if !errors.Is(err, errRefused) || len(got) != more || got[0].Name != rs[Chunk].Name {
		t.Errorf("%d claims were renewed, and %v", len(got), err)
	}
	rs[len(rs)-1].Name = "last"
	if got, err := e.Renew(t.Context(), rs); !errors.Is(err, errRefused) || len(got) != 0 {
		t.Errorf("where each call fails, %d claims were renewed, and the error is not the first: %v", len(got), err)
	}
}

// slow is a database that takes its time for each call, and never answers for the name "locked".
type slow struct {
	Database
	takes time.Duration
}

func (d slow) Batch(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	answered := time.After(d.takes)
	if slices.ContainsFunc(rs, func(r engine.Renewal) bool { return r.Name == "locked" }) {
		answered = nil
	}
	select {
	case <-answered:
		return database{}.Batch(ctx, rs)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Where somebody else keeps the row of one name locked, the claims of other calls are renewed and
// left all the same, in time for their leases. A server that is slow with every call is not cut off.
func TestACallThatIsStuckCostsNoOther(t *testing.T) {
	const ttl = 30 * time.Second
	for what, c := range map[string]struct {
		calls  int
		locked []int // the calls with a locked row
		takes  time.Duration
	}{
		"the first of two":        {calls: 2, locked: []int{0}},
		"the last of two":         {calls: 2, locked: []int{1}},
		"three of many":           {calls: 20, locked: []int{0, 7, 19}},
		"two slow calls":          {calls: 2, takes: ttl/3 - 1},
		"many slow calls":         {calls: 20, takes: ttl * 2 / 3 / 20},
		"the last, which is slow": {calls: 2, locked: []int{0}, takes: ttl / 2}, // no answer waits for its end
		"a slow call alone":       {calls: 1, takes: ttl - 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(slow{takes: c.takes}, new(Claims), 0, 0, Guarantees(false, false))
				var rs []engine.Renewal
				var cs []engine.Claim
				for i := range c.calls * Chunk {
					r := engine.Renewal{Name: fmt.Sprint("name ", i), ID: engine.NewID(), Want: ttl}
					if i%Chunk == 0 && slices.Contains(c.locked, i/Chunk) {
						r.Name = "locked"
					}
					rs, cs = append(rs, r), append(cs, engine.Claim{Name: r.Name, ID: r.ID})
				}
				for act, call := range map[string]func(context.Context) ([]engine.Claim, error){
					"renewed": func(ctx context.Context) ([]engine.Claim, error) { return e.Renew(ctx, rs) },
					"left":    func(ctx context.Context) ([]engine.Claim, error) { return e.Leave(ctx, cs) },
				} {
					ctx, cancel := context.WithTimeout(t.Context(), ttl)
					defer cancel()
					got, err := call(ctx)
					if want := (c.calls - len(c.locked)) * Chunk; len(got) != want || (err != nil) != (c.locked != nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%d claims were %s, want %d: %v", len(got), act, want, err)
					}
					// The clock is the bubble's, and stands still while anybody runs.
					if left, _ := ctx.Deadline(); c.takes == 0 && time.Until(left) < ttl/3 {
						t.Errorf("%s when %v were left of %v: too late for the leases", act, time.Until(left), ttl)
					}
				}
			})
		})
	}
}

// A listing ends after the names that begin with a prefix, and not before.
func TestWhereAPrefixEnds(t *testing.T) {
	for prefix, want := range map[string]string{"": "none", "a": "b", "ab": "ac", "a\xff": "b", "a\xff\xff": "b", "\xff": "none", "\xff\xfe": "\xff\xff"} {
		end := successor(prefix)
		if got := string(end); end == nil && want != "none" || end != nil && got != want {
			t.Errorf("the names that begin with %q end before %q, not %q", prefix, got, want)
		}
	}
}
