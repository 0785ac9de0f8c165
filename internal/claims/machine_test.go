package claims

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

func TestPhases(t *testing.T) {
	for p := Joining; p <= Gone; p++ {
		for q := Joining; q <= Gone; q++ {
			if p.follows().has(q) && p == q {
				t.Errorf("%v follows itself", p)
			}
		}
	}
	r := newRig(t, Config{})
	l := r.hold(exclusive("x"), 100)
	r.phase(l, InUse)
	r.Unlock(r.now, l, true)
	r.phase(l, Releasing)
	r.left(engine.Held)
	r.phase(l, Gone)
	r.wantEnd(OK)
	r.wantEmpty()
}

// The trust of a lease.
func TestTrust(t *testing.T) {
	t.Run("it counts from the start of the call", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		s := r.now
		r.now += time.Second
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 1, FirstTTL), nil, false)
		l := r.take(Deliver).Lease
		if want := s + FirstTTL - margin(FirstTTL); l.Ends() != want {
			t.Errorf("ends at %v, want %v", l.Ends(), want)
		}
		s = r.now
		r.after(RaiseAfter)
		o := r.take(Renew)
		r.now += time.Second
		r.Renewed(r.now, s, []engine.Renewal{{Name: "x", ID: cl.ID(), Want: o.Want}}, []engine.Claim{r.answer(cl, engine.Held, 1, o.Want)}, nil)
		if want := s + ttl - margin(ttl); l.Ends() != want {
			t.Errorf("renewed: ends at %v, want %v", l.Ends(), want)
		}
	})
	t.Run("more than was asked for is not believed", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 1)
		r.after(RaiseAfter)
		r.renewed(func(c *engine.Claim) { c.TTL = time.Hour })
		if want := r.now + ttl - margin(ttl); l.Ends() != want {
			t.Errorf("ends at %v, want %v", l.Ends(), want)
		}
		if due, _ := r.Due(); due > r.now+ttl/3 {
			t.Errorf("renewed again in %v, want a third of %v", due-r.now, ttl)
		}
	})
	t.Run("a late, shorter answer does not cut it", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 1)
		r.after(RaiseAfter)
		r.renewed()
		ends := l.Ends()
		r.Renewed(r.now, r.now-ms, []engine.Renewal{{Name: "x", ID: l.Claim().ID(), Want: time.Second}}, []engine.Claim{r.answer(l.Claim(), engine.Held, 1, time.Second)}, nil)
		if l.Ends() != ends {
			t.Errorf("ends at %v, was %v", l.Ends(), ends)
		}
	})
	t.Run("an answer after its end revives nothing", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 1)
		r.now = l.Ends() // the process was stopped
		r.Tick(r.now)
		r.Renewed(r.now, r.now-ms, []engine.Renewal{{Name: "x", ID: l.Claim().ID(), Want: ttl}}, []engine.Claim{r.answer(l.Claim(), engine.Held, 1, ttl)}, nil)
		if o := r.take(Lose); o.Reason != Expired || !l.Over() {
			t.Errorf("lost: %v, over: %v", o.Reason, l.Over())
		}
		r.Unlock(r.now, l, true)
		r.wantEnd(Expired)
	})
	t.Run("Unlock looks at the time", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 1)
		r.now = l.Ends()
		r.Unlock(r.now, l, true)
		r.wantEnd(Expired)
		r.after(0)
		r.left(engine.Held) // the claim is left all the same
		r.wantEmpty()
	})
	t.Run("a lease just past its time is not re-entered", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 1)
		r.now = l.Ends()
		w := exclusive("x")
		w.Reentrant = true
		r.enter(w, l)
		r.wantFail(Expired)
	})
	t.Run("Adopt counts from the start of its call", func(t *testing.T) {
		r := newRig(t, Config{})
		s := r.now
		r.now += time.Second
		c := &Caller{Want: exclusive("x"), Lease: new(Lease)}
		r.Adopt(r.now, s, c, engine.ID{1}, 7<<engine.HandoffBits, engine.Claim{Name: "x", ID: engine.ID{1}, Ticket: 7, State: engine.Held, TTL: ttl})
		l := r.take(Deliver).Lease
		if want := s + ttl - margin(ttl); l.Ends() != want || l.Token != 7<<engine.HandoffBits {
			t.Errorf("ends at %v with token %d, want %v", l.Ends(), l.Token, want)
		}
	})
	t.Run("a claim made anew is not the one that was held", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 7)
		r.after(RaiseAfter)
		r.renewed(func(c *engine.Claim) { c.Ticket = 8 })
		if o := r.take(Lose); o.Reason != Expired {
			t.Error(o.Reason)
		}
		r.phase(l, Lost)
	})
	t.Run("a report of a former incarnation is void", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Notified(r.now, r.answer(cl, engine.Held, 7, 0))
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 9, FirstTTL), nil, false)
		r.Notified(r.now, r.answer(cl, engine.Held, 7, 0))
		r.none(Deliver)
		r.Notified(r.now, r.answer(cl, engine.Held, 9, 0))
		r.take(Deliver)
	})
}

// How an Unlock ends.
func TestUnlockTellsTheTruth(t *testing.T) {
	for name, c := range map[string]struct {
		found  engine.State
		change func(*engine.Claim)
		want   Reason
	}{
		"held":                  {engine.Held, func(*engine.Claim) {}, OK},
		"gone":                  {engine.Gone, func(*engine.Claim) {}, Expired},
		"waiting: made anew":    {engine.Waiting, func(*engine.Claim) {}, Expired},
		"revoked":               {engine.Gone, revoked, Revoked},
		"the answer was lost":   {engine.Unknown, func(*engine.Claim) {}, Unknown},
		"revoked though it was": {engine.Held, revoked, Revoked},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			l := r.hold(exclusive("x"), 1)
			r.Unlock(r.now, l, true)
			r.none(End)
			r.left(c.found, c.change)
			r.wantEnd(c.want)
			if c.want == Unknown {
				r.after(100 * ms)
				r.left(engine.Gone) // again in the background
			}
			r.wantEmpty()
		})
	}
}

// A claim whose Leave was not answered is replaced by the next Join.
func TestGhostIsReplaced(t *testing.T) {
	r := newRig(t, Config{})
	l := r.hold(exclusive("x"), 1)
	r.Unlock(r.now, l, true)
	r.left(engine.Unknown)
	r.enter(exclusive("x"))
	cl := r.take(Join).Claim
	if got := cl.Request().Replaces; got != l.Claim().ID() {
		t.Fatalf("replaces %x, want the orphan", got)
	}
	r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 2, FirstTTL), nil, false)
	r.phase(l, Gone)
	r.after(10 * ttl)
	r.none(Leave)
}

func TestLocalHandoff(t *testing.T) {
	// turns has callers take turns until a new claim is asked for, and says how
	// many there were.
	turns := func(r *rig, l *Lease, most int) (int, *Lease) {
		for n := 1; n <= most; n++ {
			r.enter(exclusive("x"))
			r.Unlock(r.now, l, true)
			r.gather()
			for _, o := range r.outs {
				if o.Act == Join {
					return n, l
				}
			}
			next := r.take(Deliver).Lease
			if next.Token <= l.Token {
				r.t.Fatalf("token %d after %d", next.Token, l.Token)
			}
			l = next
		}
		return most, l
	}
	t.Run("tokens rise beyond 1,024 hands off", func(t *testing.T) {
		r := newRig(t, Config{})
		n, l := turns(r, r.hold(exclusive("x"), 5), 2000)
		if n != 1<<engine.HandoffBits {
			t.Errorf("%d hands off", n)
		}
		if old := r.take(Join).Claim; old.Request().Replaces != l.Claim().ID() {
			t.Error("the next claim does not replace the last")
		}
	})
	t.Run("it is bounded while another process waits", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		if n, _ := turns(r, l, 100); n != HandoffBudget+1 {
			t.Errorf("%d turns, want %d", n, HandoffBudget+1)
		}
	})
	t.Run("in time as well", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		_, l = turns(r, l, 2)
		r.now += HandoffTime
		if n, _ := turns(r, l, 2); n != 1 {
			t.Errorf("%d turns after %v", n, HandoffTime)
		}
	})
	t.Run("the bound ends with the waiting", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		_, l = turns(r, l, 20)
		r.now += ms
		r.after(RaiseAfter)
		r.renewed() // nobody waits any more
		if n, _ := turns(r, l, 100); n != 100 {
			t.Errorf("%d turns although nobody waits", n)
		}
	})
	t.Run("what was said before somebody waited does not unsay it", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		o := r.take(Renew)
		s := r.now
		r.now += ms
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		r.Renewed(r.now, s, []engine.Renewal{{Name: "x", ID: l.Claim().ID(), Want: o.Want}}, []engine.Claim{r.answer(l.Claim(), engine.Held, 5, o.Want)}, nil)
		if n, _ := turns(r, l, 100); n != HandoffBudget+1 {
			t.Errorf("%d turns, want %d", n, HandoffBudget+1)
		}
	})
	t.Run("who waits here makes the engine be asked whether others do", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		r.enter(exclusive("x"))
		if due, _ := r.Due(); due > r.now+Listen {
			t.Errorf("asked in %v, want %v", due-r.now, Listen)
		}
		if !l.Contended() {
			t.Error("not contended")
		}
	})
	t.Run("a grant that ends before its next renewal ends late", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.now = l.Ends() - ms
		r.Unlock(r.now, l, true) // too late to hand it off on unproven
		r.after(0)
		r.renewed(func(c *engine.Claim) { c.TTL = 10 * ms })
		l = r.take(Deliver).Lease
		if due, _ := r.Due(); due > l.Ends() {
			t.Errorf("due %v after its end", due-l.Ends())
		}
	})
	t.Run("readers share one claim, and a writer here ends that", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.enter(shared("x"))
		l2 := r.take(Deliver).Lease
		r.none(Join)
		r.enter(exclusive("x"))
		r.take(Join)
		r.phase(l, Draining)
		r.enter(shared("x"))
		r.none(Deliver)
		r.take(Join)
		r.Unlock(r.now, l, true)
		r.none(Leave)
		r.Unlock(r.now, l2, true)
		r.take(Leave)
	})
	t.Run("what one caller wants for itself does not leak to others", func(t *testing.T) {
		for _, w := range []Want{
			{MaxHold: time.Minute}, {MinHold: time.Millisecond}, {NoRenew: true}, {Detached: true},
		} {
			w.Name, w.Permits, w.Limit, w.TTL = "x", engine.Max, engine.Max, ttl
			r := newRig(t, Config{Detached: true})
			l := r.hold(w, 5)
			r.enter(exclusive("x"))
			cl := r.take(Join).Claim
			if cl.maxHold != 0 || cl.minHold != 0 || cl.noRenew || cl.detached {
				t.Errorf("%+v leaked", w)
			}
			r.Unlock(r.now, l, true)
			r.none(Deliver) // it waits for its own claim
			r = newRig(t, Config{Detached: true})
			l = r.hold(exclusive("x"), 5)
			r.enter(w)
			r.take(Join)
			r.Unlock(r.now, l, true)
			r.none(Deliver)
		}
	})
	t.Run("NoLend", func(t *testing.T) {
		r := newRig(t, Config{NoLocalHandoff: true})
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.take(Join)
		r.Unlock(r.now, l, true)
		r.none(Deliver)
		r.take(Leave)
	})
}

func TestTryLock(t *testing.T) {
	nowait := exclusive("x")
	nowait.NoWait = true
	t.Run("behind a local queue it asks for itself", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.enter(nowait)
		cl := r.joined(engine.Gone, 0)
		if !cl.Request().NoWait {
			t.Error("its Join waits")
		}
		r.wantFail(Held)
	})
	t.Run("what this process holds exclusively is held", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(nowait)
		r.wantFail(Held)
		r.none(Join)
		if !l.Contended() {
			t.Error("the holder was not told")
		}
	})
	t.Run("what it got is shared", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(nowait, 5)
		r.enter(exclusive("x"))
		r.none(Join)
		r.Unlock(r.now, l, true)
		r.take(Deliver)
	})
	t.Run("an engine that does not answer fails it at once", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(nowait)
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.wantFail(Unavailable)
		r.after(0)
		r.left(engine.Gone) // it may still arrive, so it is left again
		r.after(200 * ms)
		r.left(engine.Held)
		r.wantEmpty()
	})
}

func TestHolds(t *testing.T) {
	t.Run("MinHold counts from when it was held", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.MinHold = time.Minute
		l := r.hold(w, 5)
		begin := r.now
		r.after(RaiseAfter)
		r.renewed()
		r.after(ttl / 4)
		r.Unlock(r.now, l, true)
		r.none(End)
		if o := r.take(Renew); o.Want != begin+time.Minute-r.now {
			t.Errorf("kept for %v more, want %v", o.Want, begin+time.Minute-r.now)
		} else {
			r.Renewed(r.now, r.now, []engine.Renewal{{Name: "x", ID: l.Claim().ID(), Want: o.Want}}, []engine.Claim{r.answer(l.Claim(), engine.Held, 5, o.Want)}, nil)
		}
		r.wantEnd(OK)
		r.after(begin + time.Minute - r.now - ms)
		r.none(Leave)
		r.after(ms)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("MinHold of a claim that is gone says so, and a marked one is left", func(t *testing.T) {
		w := exclusive("x")
		w.MinHold = time.Minute
		r := newRig(t, Config{})
		l := r.hold(w, 5)
		r.Unlock(r.now, l, true)
		r.renewed(func(c *engine.Claim) { c.State = engine.Gone })
		r.wantEnd(Expired)
		r.wantEmpty()
		r = newRig(t, Config{})
		l = r.hold(w, 5)
		r.Unlock(r.now, l, true)
		r.renewed(revoked)
		r.wantEnd(Revoked)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
	t.Run("MinHold with an engine that does not answer", func(t *testing.T) {
		w := exclusive("x")
		w.MinHold = time.Minute
		r := newRig(t, Config{})
		l := r.hold(w, 5)
		r.Unlock(r.now, l, true)
		r.failRenew()
		r.wantEnd(Unknown)
		r.after(time.Second)
		r.take(Renew)
	})
	t.Run("MaxHold ends it although renewals succeed", func(t *testing.T) {
		w := exclusive("x")
		w.MaxHold = time.Second
		r := newRig(t, Config{})
		l := r.hold(w, 5)
		r.after(RaiseAfter)
		r.renewed()
		r.after(time.Second - RaiseAfter)
		if o := r.take(Lose); o.Reason != MaxHold {
			t.Error(o.Reason)
		}
		r.Unlock(r.now, l, true)
		r.wantEnd(MaxHold)
	})
	t.Run("NoRenew begins with its full TTL and ends with it", func(t *testing.T) {
		w := exclusive("x")
		w.NoRenew = true
		r := newRig(t, Config{})
		l := r.hold(w, 5)
		r.none(Renew)
		r.after(ttl)
		r.none(Renew)
		if o := r.take(Lose); o.Lease != l || o.Reason != Expired {
			t.Error(o.Reason)
		}
	})
	t.Run("Keep saves the calls until somebody else wants it", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Minute})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.wantEnd(OK)
		r.none(Leave)
		r.phase(l, Idle)
		r.enter(exclusive("x"))
		l2 := r.take(Deliver).Lease
		if l2.Token != l.Token+1 {
			t.Errorf("token %d after %d", l2.Token, l.Token)
		}
		r.Unlock(r.now, l2, true)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		r.after(0)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("Keep ends", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: 100 * ms})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.after(100 * ms)
		r.left(engine.Held)
		r.wantEmpty()
	})
}

func TestRevokedClaims(t *testing.T) {
	t.Run("a holder is told why, and its room is given back", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Gone, Revoked: true})
		if o := r.take(Lose); o.Reason != Revoked {
			t.Error(o.Reason)
		}
		r.none(Leave) // its holder may be at work
		r.Unlock(r.now, l, true)
		r.wantEnd(Revoked)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
	t.Run("one that waits", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.joined(engine.Waiting, 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: cl.ID(), Ticket: 5, State: engine.Gone, Revoked: true})
		r.wantFail(Revoked)
	})
	for name, learn := range map[string]func(r *rig, cl *Claim, state func(*engine.Claim)){
		"told":                 func(r *rig, cl *Claim, state func(*engine.Claim)) { r.notified(cl, engine.Gone, state) },
		"found by its renewal": func(r *rig, _ *Claim, state func(*engine.Claim)) { r.after(0); r.renewed(state) },
	} {
		// idle is a claim that is proven anew before the next caller is handed it.
		idle := func(t *testing.T) (*rig, *Lease) {
			r := newRig(t, Config{})
			l := r.hold(exclusive("x"), 5)
			r.enter(exclusive("x"))
			r.now = l.Ends() - time.Second // no renewal was answered
			r.Unlock(r.now, l, true)
			r.phase(l, Proving)
			r.wantEnd(OK)
			return r, l
		}
		goesOn := func(r *rig) {
			r.none(Fail) // it was not this caller who was revoked
			r.joined(engine.Held, 6)
			next := r.take(Deliver).Lease
			r.Unlock(r.now, next, true)
			r.left(engine.Held)
			r.wantEnd(OK)
		}
		t.Run("an idle one gives its room back, and its next caller goes on, "+name, func(t *testing.T) {
			r, l := idle(t)
			learn(r, l.Claim(), revoked)
			r.phase(l, Leaving)
			r.after(0)
			r.left(engine.Gone, revoked)
			goesOn(r)
			r.wantEmpty()
		})
		t.Run("an idle one that expired is not left, and its next caller goes on, "+name, func(t *testing.T) {
			r, l := idle(t)
			learn(r, l.Claim(), func(c *engine.Claim) { c.State = engine.Gone })
			r.phase(l, Gone)
			r.none(Leave)
			goesOn(r)
			r.wantEmpty()
		})
	}
	t.Run("before its Join was answered", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Notified(r.now, engine.Claim{Name: "x", ID: cl.ID(), Ticket: 5, State: engine.Gone, Revoked: true})
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		r.wantFail(Revoked)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
}

func TestReplacing(t *testing.T) {
	// replacing is a rig in which the next claim's Join is to replace l's.
	replacing := func(t *testing.T) (*rig, *Lease, *Claim) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		l.Claim().handoffs = 1<<engine.HandoffBits - 1
		r.enter(exclusive("x"))
		r.Unlock(r.now, l, true)
		cl := r.take(Join).Claim
		if cl.Request().Replaces != l.Claim().ID() {
			t.Fatal("Replaces is forgotten")
		}
		r.phase(l, Replaced)
		return r, l, cl
	}
	t.Run("what is replaced is not renewed and not left", func(t *testing.T) {
		r, l, cl := replacing(t)
		r.after(ttl)
		r.none(Renew)
		r.none(Leave)
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 6, FirstTTL), nil, false)
		r.phase(l, Gone)
		r.take(Deliver)
	})
	t.Run("a refused replacement leaves the old one", func(t *testing.T) {
		r, l, cl := replacing(t)
		r.Joined(r.now, cl, r.now, engine.Claim{}, engine.Refuse("no"), false)
		r.wantFail(Refused)
		r.after(0)
		if o := r.take(Leave); o.Claim != l.Claim() {
			t.Error("another was left")
		}
	})
	t.Run("one that was given up leaves both", func(t *testing.T) {
		r, l, cl := replacing(t)
		c := cl.callers.head
		r.GiveUp(r.now, c)
		r.phase(l, Replaced)
		r.Joined(r.now, cl, r.now, engine.Claim{}, context.DeadlineExceeded, true)
		r.after(0)
		ids := map[engine.ID]bool{r.take(Leave).Claim.ID(): true, r.take(Leave).Claim.ID(): true}
		if !ids[cl.ID()] || !ids[l.Claim().ID()] {
			t.Error("not both")
		}
	})
}

func TestReentering(t *testing.T) {
	reentrant := func(w Want) Want { w.Reentrant = true; return w }
	permit := Want{Name: "x", Permits: 1, Limit: 3, TTL: ttl}
	for name, c := range map[string]struct {
		held, asks Want
		want       Reason
		joins      bool
	}{
		"not by itself":                {exclusive("x"), exclusive("x"), Own, false},
		"not by itself, shared":        {shared("x"), shared("x"), Own, false},
		"not a permit by itself":       {permit, permit, Own, false},
		"counted up":                   {exclusive("x"), reentrant(exclusive("x")), OK, false},
		"shared under exclusive":       {exclusive("x"), reentrant(shared("x")), OK, false},
		"no upgrade":                   {shared("x"), reentrant(exclusive("x")), Upgrade, false},
		"a permit takes its own":       {permit, reentrant(permit), OK, true},
		"permits that could never fit": {permit, reentrant(Want{Name: "x", Permits: 3, Limit: 3, TTL: ttl}), Own, false},
		"another limit":                {permit, reentrant(exclusive("x")), Own, false},
		"another name":                 {exclusive("y"), exclusive("x"), OK, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			l := r.hold(c.held, 5)
			r.enter(c.asks, l)
			if c.joins {
				r.joined(engine.Held, 6)
			}
			if c.want != OK {
				r.wantFail(c.want)
				r.none(Join)
				r.Unlock(r.now, l, true)
				r.left(engine.Held)
				r.wantEnd(OK)
				r.wantEmpty()
				return
			}
			inner := r.take(Deliver).Lease
			r.Unlock(r.now, l, true)
			if !c.joins {
				r.none(Leave)
				r.wantEnd(OK)
			} else {
				r.left(engine.Held)
				r.wantEnd(OK)
			}
			r.Unlock(r.now, inner, true)
			r.left(engine.Held)
			r.wantEnd(OK)
			r.wantEmpty()
		})
	}
	t.Run("released leases are not on the claim any more", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(reentrant(exclusive("x")), l)
		inner := r.take(Deliver).Lease
		r.Unlock(r.now, inner, true)
		if l.Claim().leases != l || l.next != nil {
			t.Error("it is")
		}
		r.now = l.Ends()
		r.Tick(r.now)
		r.take(Lose)
		r.none(Lose)
	})
}

func TestWakeUps(t *testing.T) {
	t.Run("a subscription that began while the Join was under way", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Began(r.now)
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
		r.after(0)
		r.renewed()
		r.take(Deliver)
	})
	t.Run("a subscription has everything looked at, holders too", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.enter(exclusive("y"))
		r.joined(engine.Waiting, 6)
		r.after(RaiseAfter)
		r.renewed()
		r.Began(r.now)
		r.after(0)
		r.take(Renew)
		r.take(Renew)
	})
	t.Run("a lost notification costs a third of the first TTL at most", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.after(FirstTTL / 3)
		r.renewed()
		r.take(Deliver)
	})
	t.Run("the engine's advice is taken", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		got := r.answer(cl, engine.Waiting, 5, FirstTTL)
		got.PollAfter = 20 * ms
		r.Joined(r.now, cl, r.now, got, nil, false)
		r.after(21 * ms)
		r.take(Renew)
	})
	t.Run("a good moment to try", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.joined(engine.Waiting, 5)
		r.Notified(r.now, r.answer(cl, engine.Waiting, 5, 0))
		r.after(0)
		r.take(Renew)
	})
	t.Run("a caller's own cancel says nothing of the engine", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, context.Canceled, true)
		r.none(Down)
		r.GiveUp(r.now, c)
		r.after(0)
		r.take(Leave)
	})
	t.Run("who is still there has it asked for again", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, context.Canceled, true)
		r.GiveUp(r.now, c)
		r.after(0)
		if again := r.take(Join).Claim; again != cl {
			t.Error("by another ID")
		}
	})
}

func TestWatchThatIsRefusedIsNotified(t *testing.T) {
	r := newRig(t, Config{})
	r.Answered(r.now, engine.Refuse("no permission to subscribe"))
	r.take(Down)
	r.after(time.Second)
	r.Answered(r.now, nil)
	if o := r.take(Up); o.Want != time.Second {
		t.Errorf("down for %v", o.Want)
	}
}
