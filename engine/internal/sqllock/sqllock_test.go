package sqllock

import (
	"context"
	"errors"
	"fmt"
	"testing"
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

// A listing ends after the names that begin with a prefix, and not before.
func TestWhereAPrefixEnds(t *testing.T) {
	for prefix, want := range map[string]string{"": "none", "a": "b", "ab": "ac", "a\xff": "b", "a\xff\xff": "b", "\xff": "none", "\xff\xfe": "\xff\xff"} {
		end := successor(prefix)
		if got := string(end); end == nil && want != "none" || end != nil && got != want {
			t.Errorf("the names that begin with %q end before %q, not %q", prefix, got, want)
		}
	}
}
