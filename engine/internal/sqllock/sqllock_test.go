package sqllock

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	e := New(database{}, 0, 0, Guarantees(false, false))
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

// A ticket that no claim can have is nobody's: the database, which cannot store it, is
// not asked.
func TestATicketThatIsTooLarge(t *testing.T) {
	e := New(database{}, 0, 0, Guarantees(false, false))
	if err := e.Revoke(t.Context(), "a", math.MaxUint64, true); !errors.Is(err, engine.ErrNoClaim) {
		t.Error(err)
	}
}

// lossy is a database whose answer to a Join is lost.
type lossy struct {
	Database
	departed bool
}

var errLost = errors.New("lost")

func (*lossy) Join(context.Context, *engine.Request) (Joined, error) { return Joined{}, errLost }

func (d *lossy) Depart(context.Context) (int64, error) {
	d.departed = true
	return 0, nil
}

// A Join whose answer was lost may have made a claim: Close gives that up too.
func TestCloseGivesUpWhatALostJoinMade(t *testing.T) {
	d := &lossy{}
	e := New(d, 0, 0, Guarantees(false, false))
	r := engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Second}
	if _, err := e.Join(t.Context(), r); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || !d.departed {
		t.Errorf("what it may have made is left: %v; %v", d.departed, err)
	}
}

// longer is a database in which a client is in more queues than one call takes it out of.
type longer struct {
	lossy
	lines []int64
}

func (d *longer) Depart(context.Context) (n int64, err error) {
	n, d.lines = d.lines[0], d.lines[1:]
	return n, nil
}

// Close goes on until there is no queue left that this client is in.
func TestCloseGivesUpMoreThanOneCallTakes(t *testing.T) {
	d := &longer{lines: []int64{100, 3, 0}}
	e := New(d, 0, 0, Guarantees(false, false))
	r := engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Second}
	if _, err := e.Join(t.Context(), r); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || len(d.lines) != 0 {
		t.Errorf("%d more calls would have been needed, %v", len(d.lines), err)
	}
}

// Nothing is asked of a database by an engine that is closed.
func TestAClosedEngineAsksNothing(t *testing.T) {
	e := New(database{}, 0, 0, Guarantees(false, false))
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	ctx := t.Context()
	_, joined := e.Join(ctx, engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Second})
	_, renewed := e.Renew(ctx, []engine.Renewal{{Name: "a", Want: time.Second}})
	_, left := e.Leave(ctx, []engine.Claim{{Name: "a"}})
	_, looked := e.Queue(ctx, "a")
	for what, err := range map[string]error{"Join": joined, "Renew": renewed, "Leave": left, "Line": looked, "Evict": e.Revoke(ctx, "a", 1, true)} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, err := range e.Queues(ctx, "") {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("Queues: %v", err)
		}
	}
}
