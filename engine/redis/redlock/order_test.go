package redlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// standsOn counts the masters on which a lock stands for a claim.
func standsOn(t *testing.T, all []*servers.RedisServer, c engine.Claim) (n int) {
	t.Helper()
	for _, r := range all {
		if valueOf(t, r, c.Name) == c.ID.Secret() {
			n++
		}
	}
	return n
}

// settled waits until nothing is under way for a claim that was granted.
func settled(t *testing.T, e *Engine) {
	t.Helper()
	until(t, "something is under way", func() bool {
		e.restores.mu.Lock()
		defer e.restores.mu.Unlock()
		for _, m := range e.masters {
			m.mu.Lock()
			busy := m.owes > 0
			m.mu.Unlock()
			m.releases.mu.Lock()
			busy = busy || len(m.releases.m) > 0
			m.releases.mu.Unlock()
			if busy {
				return false
			}
		}
		e.late.mu.Lock()
		defer e.late.mu.Unlock()
		return len(e.restores.m) == 0 && len(e.late.m) == 0
	})
}

// TestAJoinDoesNotOvertakeTheLeaveBeforeIt: a majority has answered to that, and the
// last master gives the lock up later.
func TestAJoinDoesNotOvertakeTheLeaveBeforeIt(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf("timeout=10s&restart-delay=off", addrs(all)...))
	first := join(t, e, long("a"))
	until(t, "it is not on all", func() bool { return standsOn(t, all, first) == 3 })
	settled(t, e)
	m := e.masters[2]
	m.again.Lock() // the Leave waits for this there
	if s := leave(t, e, first); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	second := join(t, e, long("a"))
	if second.State != engine.Held || valueOf(t, all[2], "a") != first.ID.Secret() {
		t.Fatalf("void: the second is %+v", second)
	}
	other := join(t, e, long("b"))
	until(t, "another name waits for that", func() bool { return standsOn(t, all, other) == 3 })
	if n := do(t, all[2], "ZCARD", e.keys("a")[2]); n != int64(0) {
		t.Error("the last master was asked for the second before the first was left there: it waits for its own client")
	}
	m.again.Unlock()
	until(t, "the second is not on the last master", func() bool { return standsOn(t, all, second) == 3 })
}

// TestAHoldStandsOnEveryMasterThatAnswers: one client takes a lock again as soon as it
// has left it, many times.
func TestAHoldStandsOnEveryMasterThatAnswers(t *testing.T) {
	t.Parallel()
	pairs := testutil.Sized(200, 30)
	all := masters(t, 5, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	leave(t, e, join(t, e, long("a")))
	fewer, overtaken := 0, 0
	for range pairs {
		c := join(t, e, long("a"))
		if c.State != engine.Held {
			t.Fatalf("alone with the lock: %+v", c)
		}
		settled(t, e)
		if standsOn(t, all, c) < len(all) {
			fewer++
		}
		for _, r := range all {
			if do(t, r, "ZCARD", e.keys("a")[2]) != int64(0) { // there it was to wait, for its own client
				overtaken++
			}
		}
		leave(t, e, c)
	}
	if fewer > 0 || overtaken > 0 {
		t.Errorf("of %d holds %d stand on some of the masters; %d requests overtook the Leave before", pairs, fewer, overtaken)
	}
}

// TestAMasterThatWasAboutToBeFreeIsTakenAfterTheGrant: who is told of a release comes
// there before that.
func TestAMasterThatWasAboutToBeFreeIsTakenAfterTheGrant(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	do(t, all[2], "SET", "a", "another's")
	m := e.masters[2]
	m.again.Lock() // so that it is free before it is asked again
	c := join(t, e, long("a"))
	if c.State != engine.Held {
		t.Fatalf("void: %+v", c)
	}
	do(t, all[2], "DEL", "a")
	m.again.Unlock()
	until(t, "it is not taken", func() bool { return standsOn(t, all, c) == 3 })
	if n := counterOf(t, all[2], "a"); n != c.Ticket {
		t.Errorf("the counter is %d and not the ticket %d", n, c.Ticket)
	}
}

// TestALeaveComesAfterTheTryThatIsUnderWay: no master is told of it before, or the try would
// take the lock for nobody.
func TestALeaveComesAfterTheTryThatIsUnderWay(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	r := long("a")
	if err := e.turns.take(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	left := make(chan []engine.Claim, 1)
	go func() {
		// Twice the same, in one call: that is no reason to wait for itself.
		cs, err := e.Leave(within(t), []engine.Claim{{Name: "a", ID: r.ID}, {Name: "a", ID: r.ID}})
		if err != nil {
			t.Errorf("Leave: %v", err)
		}
		left <- cs
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if cs, err := e.Leave(ctx, []engine.Claim{{Name: "a", ID: r.ID}}); !errors.Is(err, context.DeadlineExceeded) || len(cs) > 0 {
		t.Errorf("during a try: %+v %v", cs, err)
	}
	if c, err := e.try(within(t), &request{Request: r}); err != nil || c.State != engine.Held {
		t.Fatalf("%+v %v", c, err)
	}
	e.turns.end(r.ID)
	if cs := <-left; len(cs) != 2 || cs[0].State != engine.Held {
		t.Errorf("left as %+v", cs)
	}
	settled(t, e)
	if n := standsOn(t, all, engine.Claim{Name: "a", ID: r.ID}); n > 0 {
		t.Errorf("it stands on %d masters for nobody", n)
	}
}

// TestARenewalDuringALeaveTakesNothingAgain: it may hear of a majority before that is
// told of the leaving, and of the others after.
func TestARenewalDuringALeaveTakesNothingAgain(t *testing.T) {
	var l restorations
	c := engine.Claim{Name: "a", ID: engine.NewID(), State: engine.Held, Ticket: 1}
	lost := &extended{known: []bool{true}, values: []int64{int64(engine.Gone), 0, 0}}
	renewed := func() int {
		r := l.begin(0)
		defer l.end(r)
		r.held = []engine.Claim{c}
		return len(l.standing(r, lost))
	}
	if n := renewed(); n != 1 {
		t.Errorf("%d claims are taken again before", n)
	}
	first, second := l.leave([]engine.Claim{c}), l.leave([]engine.Claim{c})
	first()
	if n := renewed(); n != 0 {
		t.Errorf("%d claims are taken again while they are left", n)
	}
	second()
	if n := renewed(); n != 1 || len(l.leaving) != 0 {
		t.Errorf("%d claims are taken again after; %d are being left", n, len(l.leaving))
	}
}
