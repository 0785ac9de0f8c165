package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

func request(id int, permits, limit int32) engine.Request {
	r := engine.Request{Name: lockName, Permits: permits, Limit: limit, WaitTTL: time.Second}
	r.ID[0], r.ID[1], r.ID[2] = byte(id), byte(id>>8), 1
	return r
}

func TestAQueueGrowsWithoutBound(t *testing.T) {
	var l queue.Queue
	if _, _, err := l.Join(0, 0, "c", request(0, 1, 1)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < engine.MaxQueue; i++ { // by hand: joining looks at the whole queue
		l.Places = append(l.Places, queue.Place{ID: request(i, 1, 1).ID, Ticket: uint64(1 + i), Permits: 1, Deadline: time.Second})
	}
	last := request(engine.MaxQueue, 1, 1)
	if c, notifications, err := l.Join(0, 0, "c", last); !errors.Is(err, engine.ErrRefused) || len(notifications) > 0 {
		t.Fatalf("claim %d says %v, %v", engine.MaxQueue+1, c.State, err)
	}
	if len(l.Places) != engine.MaxQueue {
		t.Fatalf("%d claims are in the queue", len(l.Places))
	}
	// A claim that takes the place of another makes it no longer.
	last.Replaces = l.Places[5].ID
	if _, _, err := l.Join(0, 0, "c", last); err != nil {
		t.Fatal(err)
	}
	// Those that expired do not count.
	if _, _, err := l.Join(time.Hour, 0, "c", request(engine.MaxQueue+1, 1, 1)); err != nil || len(l.Places) != 1 {
		t.Fatalf("everybody expired: %v, %d in the queue", err, len(l.Places))
	}
}

func TestATicketPassesItsBound(t *testing.T) {
	var l queue.Queue
	first := request(1, 1, 2)
	if _, _, err := l.Join(0, 0, "c", first); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", l)
	r := request(2, 1, 2)
	r.Replaces = first.ID
	for _, micros := range []uint64{engine.MaxTicket + 1, 1<<64 - 1} {
		if _, notifications, err := l.Join(0, micros, "c", r); !errors.Is(err, engine.ErrRefused) || len(notifications) > 0 {
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
	var l queue.Queue
	c, _, _ := l.Join(0, 0, "c", request(1, 1, 1))
	if _, err := l.Revoke(0, lockName, c.Ticket, false); err != nil {
		t.Fatal(err)
	}
	v := l.View(400*time.Millisecond, lockName)
	if got := v.Claims[0]; got.State != engine.Held || !got.Revoked || got.TTL != 600*time.Millisecond {
		t.Fatalf("a marked holder is shown as %+v", got)
	}
}

func TestInspectionShowsAnExpiredWaiterAsContention(t *testing.T) {
	var l queue.Queue
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
func TestAStoredQueueBehavesDifferently(t *testing.T) {
	var l queue.Queue
	l.Join(0, 7, "a", request(1, 2, 3))
	l.Join(0, 0, "b", request(2, 2, 3))
	l.Join(0, 0, "c", request(3, 1, 3))
	stored := queue.Queue{Last: l.Last, Limit: l.Limit, Places: append([]queue.Place(nil), l.Places...)}
	one, notifications := l.Leave(1, lockName, request(1, 2, 3).ID)
	two, more := stored.Leave(1, lockName, request(1, 2, 3).ID)
	if fmt.Sprint(one, notifications) != fmt.Sprint(two, more) || len(notifications) != 2 {
		t.Fatalf("%v %v differs from %v %v", one, notifications, two, more)
	}
}

func BenchmarkJoinLeaveBehindAHundred(b *testing.B) {
	var l queue.Queue
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
	var l queue.Queue
	l.Join(0, 0, "writer", request(1, 3, 3)) // ends at 1 s
	for i := 2; i <= 4; i++ {
		r := request(i, 1, 3)
		r.WaitTTL = time.Minute
		l.Join(0, 0, fmt.Sprint("reader", i), r)
	}
	c, notifications := l.Renew(time.Second, engine.Renewal{Name: lockName, ID: request(3, 1, 3).ID, Want: time.Second})
	if c.State != engine.Held || len(notifications) != 2 || notifications[0].Client != "reader2" || notifications[1].Client != "reader4" {
		t.Fatalf("the second of three that came to hold asked; it is %v, and told are %+v", c.State, notifications)
	}
	for _, n := range notifications {
		if n.Claim.State != engine.Held || n.Claim.TTL != 0 || n.Claim.PollAfter != 0 {
			t.Errorf("told %+v", n.Claim)
		}
	}
}

func TestLeaveGrantsTime(t *testing.T) {
	var l queue.Queue
	l.Join(0, 0, "c", request(1, 1, 1))
	r := request(2, 1, 1)
	l.Join(0, 0, "c", r)
	if c, _ := l.Leave(0, lockName, r.ID); c.State != engine.Waiting || c.TTL != 0 || c.PollAfter != 0 {
		t.Fatalf("Leave of a claim that waits says %+v", c)
	}
}

func TestInspectionShowsAnotherOwnerOrLimit(t *testing.T) {
	var l queue.Queue
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
		t.Fatalf("nobody is in the queue, and shown is %+v", v)
	}
}

// Whoever keeps a queue keeps its room too, and IDs in it are secrets.
func TestAPlaceThatIsFreeKeepsWhatStoodThere(t *testing.T) {
	var l queue.Queue
	for i := range 3 {
		l.Join(0, 0, "c", request(i, 1, 1))
	}
	l.Leave(0, lockName, request(1, 1, 1).ID)
	for _, p := range l.Places[:3][len(l.Places):] {
		if p != (queue.Place{}) {
			t.Fatalf("behind the end of the queue stands %+v", p)
		}
	}
}
