package claims

import (
	"context"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

// Callers of one process and one name who ask for different things, or give up.

func TestCallersMixed(t *testing.T) {
	nowait := exclusive("x")
	nowait.NoWait = true
	own := map[string]func(*Want){
		"MaxHold":  func(w *Want) { w.MaxHold = time.Minute },
		"MinHold":  func(w *Want) { w.MinHold = time.Minute },
		"NoRenew":  func(w *Want) { w.NoRenew = true },
		"Detached": func(w *Want) { w.Detached = true },
	}
	for name, change := range own {
		t.Run(name+" is not queued behind another's lease", func(t *testing.T) {
			r := newRig(t, Config{Detached: true})
			l := r.hold(exclusive("x"), 5)
			w := exclusive("x")
			change(&w)
			c := &Caller{Want: w, Lease: new(Lease)}
			if r.EnterBehind(c) {
				t.Error("it can only queue")
			}
			r.Enter(r.now, c)
			cl := r.take(Join).Claim
			if cl.maxHold != w.MaxHold || cl.minHold != w.MinHold || cl.noRenew != w.NoRenew || cl.detached != (w.Detached || w.MinHold > 0) {
				t.Error("the claim is not what was asked for")
			}
			r.Unlock(r.now, l, true)
			r.take(Leave)
		})
		t.Run(name+", asked for without waiting, gets nothing of another's, and shares nothing", func(t *testing.T) {
			w := nowait
			change(&w)
			r := newRig(t, Config{Detached: true, IdleTimeout: time.Hour})
			l := r.hold(exclusive("x"), 5)
			r.Unlock(r.now, l, true)
			r.enter(w)
			r.none(Deliver) // not what is kept
			r.joined(engine.Gone, 0)
			r.wantFail(Held)
			r = newRig(t, Config{Detached: true, IdleTimeout: time.Hour})
			l = r.hold(w, 5)
			r.enter(exclusive("x"))
			r.take(Join)
			r.Unlock(r.now, l, true)
			r.none(Deliver)
			if l.Claim().Phase() == Idle {
				t.Error("it is kept")
			}
		})
	}
	t.Run("who does not wait, shares, or holds something does not queue behind a lease", func(t *testing.T) {
		r := newRig(t, Config{})
		outer := r.hold(exclusive("y"), 4)
		r.hold(exclusive("x"), 5)
		r.hold(shared("s"), 6)
		for name, c := range map[string]*Caller{
			"no wait":    {Want: nowait, Lease: new(Lease)},
			"an actor":   {Want: exclusive("x"), Lease: &Lease{Outer: &Holding{Lease: outer}}},
			"a reader":   {Want: shared("s"), Lease: new(Lease)},
			"of nothing": {Want: exclusive("z"), Lease: new(Lease)},
		} {
			if r.EnterBehind(c) {
				t.Error(name)
			}
		}
		r = newRig(t, Config{NoLocalHandoff: true})
		r.hold(exclusive("x"), 5)
		if r.EnterBehind(&Caller{Want: exclusive("x"), Lease: new(Lease)}) {
			t.Error("NoLend")
		}
	})
	t.Run("an actor joins for itself", func(t *testing.T) {
		r := newRig(t, Config{})
		outer := r.hold(exclusive("y"), 4)
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"), outer)
		r.take(Join)
		r.Unlock(r.now, l, true)
		r.none(Deliver)
	})
	t.Run("who has unlocked what it held is no actor", func(t *testing.T) {
		r := newRig(t, Config{})
		outer := r.hold(exclusive("y"), 4)
		r.Unlock(r.now, outer, true)
		r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"), outer)
		r.none(Join)
		r.enter(exclusive("y"), outer) // nor does it hold that still
		r.none(Fail)
		r.take(Join)
	})
	t.Run("who holds something of another client is an actor, and re-enters nothing", func(t *testing.T) {
		other := newRig(t, Config{})
		outer := other.hold(exclusive("x"), 4)
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"), outer)
		r.none(Fail)
		if _, waits := r.Place(r.take(Join).Caller); waits {
			t.Error("it waits in the queue before the engine said so")
		}
		want := []engine.Hold{{Name: "x", Ticket: 4, Elsewhere: true}}
		if holds := outer.Holding().Holds(r.Machine, 8); !slices.Equal(holds, want) {
			t.Errorf("it holds %v", holds)
		}
		other.Unlock(other.now, outer, true)
		if holds := outer.Holding().Holds(r.Machine, 8); len(holds) > 0 {
			t.Errorf("it holds %v still", holds)
		}
		r.enter(exclusive("x"), outer)
		r.none(Join)
	})
	t.Run("who says that it holds something is an actor", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		c := &Caller{Want: exclusive("x"), Lease: &Lease{}, Holds: []engine.Hold{{Name: "y", Ticket: 1}}}
		if r.EnterBehind(c) {
			t.Error("it queues where nobody sees it")
		}
		r.Enter(r.now, c)
		r.joined(engine.Waiting, 6)
		if ticket, waits := r.Place(c); !waits || ticket != 6 {
			t.Errorf("ticket %d, waits: %v", ticket, waits)
		}
	})
	t.Run("who shares a claim has no place of its own in the queue", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		r.joined(engine.Waiting, 6)
		if ticket, waits := r.Place(c); waits {
			t.Errorf("it is taken for who waits with ticket %d, as are all that share it", ticket)
		}
	})
	t.Run("an actor that does not wait takes what is kept, and not what readers use", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		outer := r.hold(exclusive("y"), 4)
		l := r.hold(shared("x"), 5)
		w := shared("x")
		w.NoWait = true
		r.enter(w, outer)
		r.none(Deliver)
		r.joined(engine.Gone, 0)
		r.wantFail(Held)
		r.Unlock(r.now, l, true)
		r.enter(w, outer)
		r.take(Deliver)
	})
	t.Run("what an actor got without waiting is its own", func(t *testing.T) {
		r := newRig(t, Config{})
		outer := r.hold(exclusive("y"), 4)
		r.hold(nowait, 5, outer)
		r.enter(exclusive("x"))
		r.take(Join)
	})
	t.Run("NoLocalHandoff shares nothing that was got without waiting", func(t *testing.T) {
		r := newRig(t, Config{NoLocalHandoff: true})
		r.hold(nowait, 5)
		r.enter(exclusive("x"))
		r.take(Join)
	})
	t.Run("what one that does not wait got is not shared over another's claim", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(nowait)
		cl := r.take(Join).Claim
		r.enter(exclusive("x"))
		second := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		l := r.take(Deliver).Lease
		r.Joined(r.now, second, r.now, r.answer(second, engine.Waiting, 6, FirstTTL), nil, false)
		r.Unlock(r.now, l, true)
		r.left(engine.Held)
		r.notified(second, engine.Held)
		if l := r.take(Deliver).Lease; l.Claim() != second {
			t.Error("of another claim")
		}
	})
	t.Run("NoLocalHandoff keeps nothing, since nobody could have it", func(t *testing.T) {
		r := newRig(t, Config{NoLocalHandoff: true, IdleTimeout: time.Hour})
		l := r.hold(nowait, 5)
		r.Unlock(r.now, l, true)
		r.phase(l, Releasing)
	})
	t.Run("what a reader got without waiting does not take the place of what readers use", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.notified(l.Claim(), engine.Held, contended)
		r.now += HandoffTime
		w := shared("x")
		w.NoWait = true
		for range HandoffBudget + 1 {
			r.enter(w)
			if r.count(Join) > 0 {
				break
			}
			r.take(Deliver)
		}
		r.joined(engine.Held, 6)
		r.take(Deliver)
		if l.Claim().callers.current != l.Claim() {
			t.Error("it does")
		}
	})
	t.Run("a writer here lets readers in who came before it and wait for the proof", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.now = l.Ends() - ms
		r.enter(shared("x"))
		r.none(Deliver)
		r.enter(exclusive("x"))
		r.take(Join)
		r.after(0)
		r.renewed()
		r.take(Deliver)
	})
	t.Run("what was shared leaves nothing behind", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(nowait, 5)
		r.Unlock(r.now, l, true)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("one that does not wait is not given what is no longer proven", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.now = l.Ends() // paused
		r.enter(nowait)
		r.none(Deliver)
		r.take(Join)
		// Nor told that it is held, by a lease whose time is up.
		r = newRig(t, Config{})
		l = r.hold(exclusive("x"), 5)
		r.now = l.Ends()
		r.enter(nowait)
		r.none(Fail)
		r.take(Join)
	})
	t.Run("one that does not wait is handed nothing whose end is in sight", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.now = l.Ends() - ms
		r.enter(nowait)
		r.none(Deliver)
	})
	t.Run("one that does not wait is handed no more than the others are", func(t *testing.T) {
		w := shared("x")
		w.NoWait = true
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.notified(l.Claim(), engine.Held, contended)
		for range HandoffBudget {
			r.enter(w)
			r.take(Deliver)
		}
		r.enter(w)
		r.none(Deliver)
		r.take(Join)
	})
	t.Run("one bounded try does not replace an orphan", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(nowait, 5)
		r.Unlock(r.now, l, true)
		r.left(engine.Unknown)
		r.enter(nowait)
		if cl := r.take(Join).Claim; cl.Request().Replaces != (engine.ID{}) {
			t.Error("it does")
		}
	})
	t.Run("one bounded try that cannot be raised fails", func(t *testing.T) {
		w := nowait
		w.NoRenew = true
		r := newRig(t, Config{})
		r.enter(w)
		r.joined(engine.Held, 5)
		r.after(0)
		r.failRenew()
		r.wantFail(Unavailable)
		r.after(0)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("a lease that was tried for outlives a renewal that failed", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(nowait, 5)
		r.after(RaiseAfter)
		r.failRenew()
		r.phase(l, InUse)
		r.none(Leave)
	})
	t.Run("a held claim whose Join found it gone is asked for again", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Gone, 5) // it expired on the way
		r.none(Fail)
		r.joined(engine.Held, 6)
		l := r.take(Deliver).Lease
		r.enter(exclusive("x")) // and is shared
		r.none(Join)
		r.Unlock(r.now, l, true)
		r.take(Deliver)
	})
	t.Run("permits are each caller's own", func(t *testing.T) {
		permit := Want{Name: "x", Permits: 1, Limit: 3, TTL: ttl}
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(permit, 5)
		r.enter(permit)
		r.joined(engine.Held, 6)
		second := r.take(Deliver).Lease
		r.Unlock(r.now, second, true)
		r.left(engine.Held)
		r.wantEnd(OK)
		permit.Reentrant = true
		c := r.enter(permit, l)
		r.joined(engine.Held, 7)
		inner := r.take(Deliver).Lease
		permit.Permits = 2 // with the two it has it would wait for itself
		r.enter(permit, inner)
		r.wantFail(Own)
		permit.Permits = 1 // the third of three
		r.enter(permit, inner)
		r.none(Fail)
		r.take(Join)
		_ = c
	})
	t.Run("a re-entered lease has the token of its hold", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		w := exclusive("x")
		w.Reentrant = true
		r.enter(w, l)
		if inner := r.take(Deliver).Lease; inner.Token != l.Token {
			t.Errorf("%d, not %d", inner.Token, l.Token)
		}
	})
}

func TestMakingRoom(t *testing.T) {
	idle := func(t *testing.T, w Want) (*rig, *Lease) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(w, 5)
		r.Unlock(r.now, l, true)
		r.phase(l, Idle)
		return r, l
	}
	nowait := func(w Want) Want { w.NoWait = true; return w }
	for name, c := range map[string]struct{ idle, asks Want }{
		"a reader": {exclusive("x"), nowait(shared("x"))},
		"a writer": {shared("x"), nowait(exclusive("x"))},
	} {
		t.Run(name, func(t *testing.T) {
			r, l := idle(t, c.idle)
			caller := &Caller{Want: c.asks, Lease: new(Lease)}
			r.ReleaseIdle(r.now, caller)
			o := r.take(Leave)
			if o.Claim != l.Claim() || o.Caller != caller {
				t.Error("another, or for another")
			}
			r.Left(r.now, []engine.Claim{{Name: "x", ID: o.Claim.ID()}}, []engine.Claim{r.answer(o.Claim, engine.Held, 5, 0)}, nil)
			r.enter(c.idle) // it is not what others wait for any more
			r.take(Join)
		})
	}
	t.Run("not while it is given back", func(t *testing.T) {
		r, _ := idle(t, shared("x"))
		r.ReleaseIdle(r.now, &Caller{Want: nowait(exclusive("x")), Lease: new(Lease)})
		r.enter(shared("x"))
		r.take(Join)
	})
	t.Run("not of what the caller could have", func(t *testing.T) {
		r, l := idle(t, exclusive("x"))
		r.ReleaseIdle(r.now, &Caller{Want: nowait(exclusive("x")), Lease: new(Lease)})
		r.none(Leave)
		r.phase(l, Idle)
		r, l = idle(t, shared("x"))
		r.ReleaseIdle(r.now, &Caller{Want: nowait(shared("x")), Lease: new(Lease)})
		r.none(Leave)
		r.phase(l, Idle)
	})
	t.Run("not of what is in use", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(shared("x"), 5)
		r.ReleaseIdle(r.now, &Caller{Want: nowait(exclusive("x")), Lease: new(Lease)})
		r.none(Leave)
		r.phase(l, InUse)
	})
}

func TestGivingUp(t *testing.T) {
	t.Run("what it waited with, for who says who holds the name", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.GiveUp(r.now, c)
		if c.Ticket != 5 || c.Silent || c.Err != nil {
			t.Errorf("ticket %d, silent %v, %v", c.Ticket, c.Silent, c.Err)
		}
	})
	t.Run("an engine that did not answer", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		r.GiveUp(r.now, c)
		if !c.Silent {
			t.Error("not silent")
		}
		r = newRig(t, Config{})
		c = r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.GiveUp(r.now, c)
		if c.Err != errCut {
			t.Error(c.Err)
		}
		r.after(0)
		if o := r.take(Leave); o.Claim != cl {
			t.Error("not left") // the Join may have arrived
		}
	})
	t.Run("an engine that has said that it holds has answered", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Notified(r.now, r.answer(cl, engine.Held, 5, 0))
		r.GiveUp(r.now, c)
		if c.Silent {
			t.Error("silent")
		}
	})
	t.Run("an error of another's Join does not blame the engine", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.GiveUp(r.now, c)
		c = r.enter(exclusive("x"))
		r.take(Join)
		r.GiveUp(r.now, c)
		if c.Err != nil || !c.Silent {
			t.Errorf("%v, silent %v", c.Err, c.Silent)
		}
	})
	t.Run("an old error does not blame the engine", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.after(50 * ms)
		r.joined(engine.Waiting, 5)
		r.GiveUp(r.now, c)
		if c.Err != nil {
			t.Error(c.Err)
		}
	})
	t.Run("one of many", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		second := r.enter(exclusive("x"))
		cl := r.joined(engine.Waiting, 5)
		r.GiveUp(r.now, second)
		r.none(Leave)
		if cl.Phase() != Waiting {
			t.Error("the claim was given up with it")
		}
		r.notified(cl, engine.Held)
		r.take(Deliver)
		if r.GiveUp(r.now, second) {
			t.Error("twice")
		}
	})
	t.Run("the last while the claim is not proven yet", func(t *testing.T) {
		w := exclusive("x")
		w.NoRenew = true
		r := newRig(t, Config{})
		c := r.enter(w)
		r.joined(engine.Held, 5)
		r.GiveUp(r.now, c)
		r.after(0)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("the last while what was handed off to it is proven anew", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		c := r.enter(exclusive("x"))
		r.now = l.Ends() - ms
		r.Unlock(r.now, l, true)
		r.phase(l, Proving)
		r.GiveUp(r.now, c)
		r.after(0)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("while its Join is under way: the next joins anew, and the first is left", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.GiveUp(r.now, c)
		r.none(Leave) // it could overtake the Join
		r.enter(exclusive("x"))
		second := r.take(Join).Claim
		if second == cl {
			t.Fatal("the one given up")
		}
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		r.none(Deliver)
		r.after(0)
		r.left(engine.Held)
		r.Joined(r.now, second, r.now, r.answer(second, engine.Held, 6, FirstTTL), nil, false)
		r.take(Deliver)
	})
	t.Run("while its Join is under way, which is then cut: it is left, not asked for again", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.GiveUp(r.now, c)
		r.Joined(r.now, cl, r.now, engine.Claim{}, context.Canceled, true)
		r.after(time.Second)
		r.none(Join)
		r.take(Leave)
	})
	t.Run("with FailFast, a caller's own cancel does not fail the others", func(t *testing.T) {
		r := newRig(t, Config{FailFast: true})
		c := r.enter(exclusive("x"))
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, context.Canceled, true)
		r.none(Fail)
		r.after(time.Hour)
		r.none(Join) // the one who cancelled is still in the queue
		r.GiveUp(r.now, c)
		r.after(0)
		r.joined(engine.Held, 5)
		r.take(Deliver)
	})
	t.Run("with FailFast, an engine that does not answer fails all", func(t *testing.T) {
		r := newRig(t, Config{FailFast: true})
		r.enter(exclusive("x"))
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.wantFail(Unavailable)
		r.wantFail(Unavailable)
		r.none(Deliver)
	})
}
