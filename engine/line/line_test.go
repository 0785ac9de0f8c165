package line_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

func request(id int, units, limit int32) engine.Request {
	r := engine.Request{Name: lockName, Units: units, Limit: limit, WaitTTL: time.Second}
	r.ID[0], r.ID[1], r.ID[2] = byte(id), byte(id>>8), 1
	return r
}

func TestALineGrowsWithoutBound(t *testing.T) {
	var l line.Line
	if _, _, err := l.Join(0, 0, "c", request(0, 1, 1)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < engine.MaxLine; i++ { // by hand: joining looks at the whole line
		l.Places = append(l.Places, line.Place{ID: request(i, 1, 1).ID, Ticket: uint64(1 + i), Units: 1, Deadline: time.Second})
	}
	last := request(engine.MaxLine, 1, 1)
	if c, notes, err := l.Join(0, 0, "c", last); !errors.Is(err, engine.ErrRefused) || len(notes) > 0 {
		t.Fatalf("claim %d says %v, %v", engine.MaxLine+1, c.State, err)
	}
	if len(l.Places) != engine.MaxLine {
		t.Fatalf("%d claims are in line", len(l.Places))
	}
	// A claim that takes the place of another makes it no longer.
	last.Replaces = l.Places[5].ID
	if _, _, err := l.Join(0, 0, "c", last); err != nil {
		t.Fatal(err)
	}
	// Those that expired do not count.
	if _, _, err := l.Join(time.Hour, 0, "c", request(engine.MaxLine+1, 1, 1)); err != nil || len(l.Places) != 1 {
		t.Fatalf("everybody expired: %v, %d in line", err, len(l.Places))
	}
}

func TestATicketPassesItsBound(t *testing.T) {
	var l line.Line
	first := request(1, 1, 2)
	if _, _, err := l.Join(0, 0, "c", first); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", l)
	r := request(2, 1, 2)
	r.Replaces = first.ID
	for _, micros := range []uint64{engine.MaxTicket + 1, 1<<64 - 1} {
		if _, notes, err := l.Join(0, micros, "c", r); !errors.Is(err, engine.ErrRefused) || len(notes) > 0 {
			t.Fatalf("with the clock at %d: %v", micros, err)
		}
	}
	if after := fmt.Sprintf("%+v", l); after != before {
		t.Fatalf("a refused Join changed %s into %s", before, after)
	}
	c, _, err := l.Join(0, engine.MaxTicket, "c", r)
	if err != nil || c.Ticket != engine.MaxTicket {
		t.Fatalf("the last ticket of all: %v, %v", c.Ticket, err)
	}
	if _, _, err := l.Join(0, 0, "c", request(3, 1, 2)); !errors.Is(err, engine.ErrRefused) {
		t.Fatalf("after the last ticket of all: %v", err)
	}
}

func TestInspectionHidesWhenAMarkedHolderEnds(t *testing.T) {
	var l line.Line
	c, _, _ := l.Join(0, 0, "c", request(1, 1, 1))
	if _, err := l.Evict(0, lockName, c.Ticket, false); err != nil {
		t.Fatal(err)
	}
	v := l.View(400*time.Millisecond, lockName)
	if got := v.Claims[0]; got.State != engine.Held || !got.Evicted || got.TTL != 600*time.Millisecond {
		t.Fatalf("a marked holder is shown as %+v", got)
	}
}

func TestInspectionShowsAnExpiredWaiterAsContention(t *testing.T) {
	var l line.Line
	long := request(1, 1, 1)
	long.WaitTTL = time.Minute
	l.Join(0, 0, "c", long)
	l.Join(0, 0, "c", request(2, 1, 1))
	if v := l.View(0, lockName); !v.Claims[0].Contended {
		t.Fatal("somebody waits, and the holder is not shown as contended")
	}
	if v := l.View(time.Second, lockName); len(v.Claims) != 1 || v.Claims[0].Contended {
		t.Fatalf("the only waiter has expired: %+v", v.Claims)
	}
}

// Loading must not depend on what View or a refused call left behind: an engine
// stores the fields and nothing else.
func TestAStoredLineBehavesDifferently(t *testing.T) {
	var l line.Line
	l.Join(0, 7, "a", request(1, 2, 3))
	l.Join(0, 0, "b", request(2, 2, 3))
	l.Join(0, 0, "c", request(3, 1, 3))
	stored := line.Line{Last: l.Last, Limit: l.Limit, Places: append([]line.Place(nil), l.Places...)}
	one, notes := l.Leave(1, lockName, request(1, 2, 3).ID)
	two, more := stored.Leave(1, lockName, request(1, 2, 3).ID)
	if fmt.Sprint(one, notes) != fmt.Sprint(two, more) || len(notes) != 2 {
		t.Fatalf("%v %v differs from %v %v", one, notes, two, more)
	}
}

func BenchmarkJoinLeaveBehindAHundred(b *testing.B) {
	var l line.Line
	for i := range 100 {
		l.Join(0, 0, "c", request(i, 1, 1))
	}
	r := request(1000, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		l.Join(0, 0, "c", r)
		l.Leave(0, lockName, r.ID)
	}
}

// Several come to hold at once, and the one whose call it was stands among them.
func TestThoseBehindTheCallerAreNotTold(t *testing.T) {
	var l line.Line
	l.Join(0, 0, "writer", request(1, 3, 3)) // ends at 1 s
	for i := 2; i <= 4; i++ {
		r := request(i, 1, 3)
		r.WaitTTL = time.Minute
		l.Join(0, 0, fmt.Sprint("reader", i), r)
	}
	c, notes := l.Renew(time.Second, engine.Renewal{Name: lockName, ID: request(3, 1, 3).ID, Want: time.Second})
	if c.State != engine.Held || len(notes) != 2 || notes[0].Client != "reader2" || notes[1].Client != "reader4" {
		t.Fatalf("the second of three that came to hold asked; it is %v, and told are %+v", c.State, notes)
	}
	for _, n := range notes {
		if n.Claim.State != engine.Held || n.Claim.TTL != 0 || n.Claim.Look != 0 {
			t.Errorf("told %+v", n.Claim)
		}
	}
}

func TestLeaveGrantsTime(t *testing.T) {
	var l line.Line
	l.Join(0, 0, "c", request(1, 1, 1))
	r := request(2, 1, 1)
	l.Join(0, 0, "c", r)
	if c, _ := l.Leave(0, lockName, r.ID); c.State != engine.Waiting || c.TTL != 0 || c.Look != 0 {
		t.Fatalf("Leave of a claim that waits says %+v", c)
	}
}

func TestInspectionShowsAnotherOwnerOrLimit(t *testing.T) {
	var l line.Line
	for i := range 3 {
		r := request(i, 1, 2)
		r.WaitTTL = time.Duration(i+1) * time.Second
		r.Owner = engine.Owner{Host: "h", Label: fmt.Sprint(i)}
		l.Join(0, 0, "c", r)
	}
	v := l.View(time.Second, lockName)
	if v.Name != lockName || v.Limit != 2 || len(v.Claims) != 2 || v.Claims[0].Owner.Label != "1" || v.Claims[1].Owner.Label != "2" {
		t.Fatalf("shown: %+v", v)
	}
	if v := l.View(time.Hour, lockName); v.Limit != 0 || len(v.Claims) != 0 {
		t.Fatalf("nobody is in line, and shown is %+v", v)
	}
}

// Whoever keeps a line keeps its room too, and IDs in it are secrets.
func TestAPlaceThatIsFreeKeepsWhatStoodThere(t *testing.T) {
	var l line.Line
	for i := range 3 {
		l.Join(0, 0, "c", request(i, 1, 1))
	}
	l.Leave(0, lockName, request(1, 1, 1).ID)
	for _, p := range l.Places[:3][len(l.Places):] {
		if p != (line.Place{}) {
			t.Fatalf("behind the end of the line stands %+v", p)
		}
	}
}
