package claims

import (
	"context"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

// How leases and claims end: unlocked, kept, lingering, lost, detached, left
// again, closed.

func TestEndsOfLeases(t *testing.T) {
	reentrant := func(w Want) Want { w.Reentrant = true; return w }
	minHold := func(d time.Duration) Want { w := exclusive("x"); w.MinHold = d; return w }

	t.Run("a lease that was unlocked is over", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		if !l.Over() || !l.Ended() {
			t.Error("it is not")
		}
	})
	t.Run("the inner lease of a hold that was lost says so too", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(reentrant(exclusive("x")), l)
		inner := r.take(Deliver).Lease
		r.notified(l.Claim(), engine.Gone, revoked)
		r.take(Lose)
		r.take(Lose)
		r.enter(reentrant(exclusive("x")), l) // nor is it entered again
		r.wantFail(Revoked)
		r.Unlock(r.now, inner, true)
		r.wantEnd(Revoked)
		r.none(Leave) // the outer holder may be at work
		r.after(time.Second)
		r.none(Leave)
		r.Unlock(r.now, l, true)
		r.wantEnd(Revoked)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
	t.Run("readers of a claim that is lost: it is left with the last", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.enter(shared("x"))
		second := r.take(Deliver).Lease
		r.notified(l.Claim(), engine.Gone, revoked)
		if n := r.count(Lose); n != 2 {
			t.Errorf("%d leases lost", n)
		}
		r.Unlock(r.now, l, true)
		r.after(time.Second)
		r.none(Leave)
		r.Unlock(r.now, second, true)
		r.after(0)
		r.take(Leave)
	})
	t.Run("who waits here for a lost claim is given another", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.now = l.Ends()
		r.Tick(r.now)
		r.take(Lose)
		r.joined(engine.Held, 6)
		r.take(Deliver)
	})
	t.Run("who comes after a loss is given another", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.now = l.Ends()
		r.Tick(r.now)
		r.enter(exclusive("x"))
		r.joined(engine.Held, 6)
		r.take(Deliver)
	})
	t.Run("who comes while an Unlock is under way is given another", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.enter(exclusive("x"))
		r.take(Join)
		r.left(engine.Held)
		r.wantEnd(OK)
	})
	t.Run("draining readers lose it at its end", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.enter(exclusive("x"))
		r.phase(l, Draining)
		r.after(RaiseAfter)
		r.renewed(contended) // and are renewed until then
		r.phase(l, Draining)
		r.now = l.Ends()
		r.Tick(r.now)
		if o := r.take(Lose); o.Lease != l || o.Reason != Expired {
			t.Error("another")
		}
		r.Unlock(r.now, l, true)
		r.wantEnd(Expired)
	})
	t.Run("an answer after its end says that it is lost, and not more", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		o := r.take(Renew)
		s := r.now
		r.now = l.Ends() // nobody looked at the clock yet
		r.proven(o, s, r.answer(l.Claim(), engine.Held, 5, ttl))
		r.take(Lose)
		r.phase(l, Lost)
	})
	t.Run("an answer of a former incarnation loses nothing", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed(func(c *engine.Claim) { c.Ticket, c.State = 3, engine.Waiting })
		r.phase(l, InUse)
	})
	t.Run("a claim that waits again was made anew", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed(func(c *engine.Claim) { c.State = engine.Waiting })
		r.phase(l, Lost)
	})
	t.Run("an answer after Unlock changes nothing", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		o, s := r.take(Renew), r.now
		r.Unlock(r.now, l, true)
		r.proven(o, s, r.answer(l.Claim(), engine.Gone, 5, 0))
		r.phase(l, Releasing)
		r.after(ttl)
		r.none(Renew)
		r.left(engine.Held)
		r.wantEnd(OK)
		r.wantEmpty()
	})

	t.Run("MinHold that has passed by itself ends with Unlock", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(minHold(time.Second), 5)
		r.after(time.Second)
		r.Unlock(r.now, l, true)
		r.left(engine.Held)
		r.wantEnd(OK)
	})
	t.Run("MinHold counts from the claim's first lease, not from an inner one", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(minHold(time.Second), 5)
		r.now += 500 * ms
		r.enter(reentrant(exclusive("x")), l)
		inner := r.take(Deliver).Lease
		r.Unlock(r.now, l, true)
		r.now += 500 * ms
		r.Unlock(r.now, inner, true)
		r.take(Leave)
	})
	t.Run("MinHold is answered by a call that began after Unlock", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(minHold(time.Minute), 5)
		r.after(RaiseAfter)
		o, s := r.take(Renew), r.now
		r.now += ms
		r.Unlock(r.now, l, true)
		r.proven(o, s, r.answer(l.Claim(), engine.Held, 5, ttl))
		r.none(End)
		r.renewed()
		r.wantEnd(OK)
	})
	t.Run("MinHold asks at once, whatever is under way", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(minHold(time.Minute), 5)
		r.after(2500 * ms)
		if n := r.count(Renew); n != attempts {
			t.Fatalf("%d renewals under way", n)
		}
		r.Unlock(r.now, l, true)
		if n := r.count(Renew); n != attempts+1 {
			t.Error("it did not")
		}
	})
	t.Run("MinHold that no answer confirmed is over at its end", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(minHold(500*ms), 5)
		r.Unlock(r.now, l, true)
		r.after(500 * ms)
		r.wantEnd(OK)
		r.take(Leave)
	})
	t.Run("MinHold ends even if the claim is not detached", func(t *testing.T) {
		for _, can := range []bool{true, false} {
			r := newRig(t, Config{Detached: can})
			r.enter(minHold(time.Minute))
			if cl := r.take(Join).Claim; cl.Request().Detached != can {
				t.Errorf("detached: %v where the engine can: %v", cl.Request().Detached, can)
			}
		}
	})
	t.Run("who comes while it lingers asks for itself", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(minHold(time.Minute), 5)
		r.Unlock(r.now, l, true)
		r.enter(exclusive("x"))
		r.take(Join)
	})

	t.Run("what may be kept", func(t *testing.T) {
		for name, c := range map[string]struct {
			keep bool
			then func(*rig, *Lease)
			want Phase
		}{
			"nobody waits":            {true, func(*rig, *Lease) {}, Idle},
			"the caller says not":     {false, func(*rig, *Lease) {}, Releasing},
			"another process waits":   {true, func(r *rig, l *Lease) { r.notified(l.Claim(), engine.Held, contended) }, Releasing},
			"it has no handoff left":  {true, func(r *rig, l *Lease) { l.Claim().handoffs = 1<<engine.HandoffBits - 1 }, Releasing},
			"it has one handoff left": {true, func(r *rig, l *Lease) { l.Claim().handoffs = 1<<engine.HandoffBits - 2 }, Idle},
			"others wait for another": {true, func(r *rig, l *Lease) { l.Claim().callers.current = nil }, Releasing},
		} {
			r := newRig(t, Config{IdleTimeout: time.Minute})
			l := r.hold(exclusive("x"), 5)
			c.then(r, l)
			r.Unlock(r.now, l, c.keep)
			if got := l.Claim().Phase(); got != c.want {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	})
	t.Run("an actor's claim is not kept, since no other finds it", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Minute})
		l := r.hold(exclusive("x"), 5, r.hold(exclusive("y"), 4))
		r.Unlock(r.now, l, true)
		r.phase(l, Releasing)
	})
	t.Run("what is kept is kept for Keep, from Unlock on", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: 10 * time.Second})
		l := r.hold(exclusive("x"), 5)
		for range 20 {
			r.after(time.Second)
			for r.count(Renew) > 0 {
				r.renewed()
			}
		}
		r.Unlock(r.now, l, true)
		for range 9 {
			r.after(time.Second)
			for r.count(Renew) > 0 {
				r.renewed()
			}
		}
		r.none(Leave)
		r.after(time.Second)
		r.take(Leave)
	})
	t.Run("a writer here ends what readers keep, and lets in those who came before it", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(shared("x"), 5)
		r.Unlock(r.now, l, true)
		r.enter(exclusive("x"))
		r.take(Join)
		r.phase(l, Leaving)

		r = newRig(t, Config{IdleTimeout: time.Hour})
		l = r.hold(shared("x"), 5)
		r.Unlock(r.now, l, true)
		r.after(FirstTTL / 2) // proven anew before it is handed off
		r.enter(shared("x"))
		r.none(Deliver)
		r.enter(exclusive("x"))
		r.take(Join)
		r.phase(l, Proving)
		r.renewed()
		r.take(Deliver)
	})
	t.Run("an actor that writes lets readers finish no sooner", func(t *testing.T) {
		r := newRig(t, Config{})
		outer := r.hold(exclusive("y"), 4)
		l := r.hold(shared("x"), 5)
		r.enter(exclusive("x"), outer)
		r.take(Join)
		r.phase(l, InUse)
		r.notified(l.Claim(), engine.Held, contended) // the engine says so
		if !l.Contended() {
			t.Error("not told")
		}
	})

	t.Run("what is detached is forgotten and not held", func(t *testing.T) {
		w := exclusive("x")
		w.Detached = true
		r := newRig(t, Config{Detached: true})
		l := r.hold(w, 5)
		if detached, reentered := l.Detachable(); !detached || reentered {
			t.Error("it cannot be detached")
		}
		r.enter(reentrant(exclusive("x")), l)
		inner := r.take(Deliver).Lease
		if _, reentered := l.Detachable(); !reentered {
			t.Error("it was re-entered")
		}
		r.Unlock(r.now, inner, true)
		r.Detach(r.now, l)
		r.wantEmpty()
		r.none(Leave)
		if n := len(l.Holding().Holds(r.Machine, 10)); n != 0 {
			t.Errorf("its context holds %d names", n)
		}
		r.enter(reentrant(exclusive("x")), l)
		r.take(Join)
	})
	t.Run("a context names what it holds, and not what it held", func(t *testing.T) {
		r := newRig(t, Config{})
		a := r.hold(exclusive("a"), 4)
		b := r.hold(exclusive("b"), 5, a)
		if h := b.Holding().Holds(r.Machine, 10); len(h) != 2 || h[0].Name != "b" || h[0].Ticket != 5 || h[1].Name != "a" {
			t.Errorf("%+v", h)
		}
		r.Unlock(r.now, a, true)
		if h := b.Holding().Holds(r.Machine, 10); len(h) != 1 || h[0].Name != "b" {
			t.Errorf("%+v", h)
		}
	})
	t.Run("a context names a re-entered claim once, and what is outside of it", func(t *testing.T) {
		r, other := newRig(t, Config{}), newRig(t, Config{})
		a := r.hold(exclusive("a"), 4)
		inner := r.hold(exclusive("b"), 5, a)
		for range 3 {
			r.enter(reentrant(exclusive("b")), inner)
			inner = r.take(Deliver).Lease
		}
		for _, m := range []*Machine{r.Machine, other.Machine} {
			elsewhere := m != r.Machine
			want := []engine.Hold{{Name: "b", Ticket: 5, Elsewhere: elsewhere}, {Name: "a", Ticket: 4, Elsewhere: elsewhere}}
			if h := inner.Holding().Holds(m, 2); !slices.Equal(h, want) {
				t.Errorf("%+v", h)
			}
		}
	})
	t.Run("a context does not name what was lost, by a handle that was unlocked before", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("a")
		w.NoRenew = true
		outer := r.hold(w, 4)
		r.enter(reentrant(exclusive("a")), outer)
		inner := r.take(Deliver).Lease
		r.Unlock(r.now, outer, true)
		if h := inner.Holding().Holds(r.Machine, 10); len(h) != 1 {
			t.Errorf("it holds %+v", h)
		}
		r.after(ttl)
		if o := r.take(Lose); o.Lease != inner {
			t.Fatalf("void: lost is %+v", o.Lease)
		}
		if h := inner.Holding().Holds(r.Machine, 10); len(h) != 0 {
			t.Errorf("it holds %+v still", h)
		}
	})
	t.Run("an old sibling does not fail who waits for the next claim", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.GiveUp(r.now, c)
		r.enter(exclusive("x"))
		r.Joined(r.now, cl, r.now, engine.Claim{}, engine.Refuse("no"), false)
		r.none(Fail)
	})
	t.Run("a refused Join does not stop the next", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, engine.Refuse("no"), false)
		r.wantFail(Refused)
		r.enter(exclusive("x"))
		r.joined(engine.Held, 5)
		r.take(Deliver)
	})
	t.Run("a revoked waiter does not stop the next, and is left", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		got := r.answer(cl, engine.Gone, 5, 0)
		got.Revoked = true
		r.Joined(r.now, cl, r.now, got, nil, false)
		r.wantFail(Revoked)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
}

func TestHandedOn(t *testing.T) {
	notified := func(r *rig, l *Lease) { r.notified(l.Claim(), engine.Held, contended) }
	t.Run("the claim keeps its age", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		begin := r.now
		r.now += time.Second
		r.Unlock(r.now, l, true)
		o := r.take(Deliver)
		if !o.HandedOff || o.Lease.HeldAt != r.now || l.Claim().heldAt != begin {
			t.Errorf("handed off %v, the lease since %v, the claim since %v", o.HandedOff, o.Lease.HeldAt, l.Claim().heldAt)
		}
	})
	t.Run("a claim's age is from its first lease", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.NoRenew, w.MinHold = true, time.Minute
		r.enter(w)
		r.joined(engine.Held, 5) // ready, and to be raised
		r.now += time.Second
		r.Tick(r.now)
		r.renewed()
		if l := r.take(Deliver).Lease; l.Claim().heldAt != r.now {
			t.Error("from when it was ready")
		}
	})
	t.Run("readers have one token", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.enter(shared("x"))
		if second := r.take(Deliver).Lease; second.Token != l.Token {
			t.Error("two") // there are more readers than a token has room for
		}
	})
	t.Run("all readers who wait get it at once", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(shared("x"))
		r.enter(shared("x"))
		r.enter(shared("x"))
		r.joined(engine.Held, 5)
		if n := r.count(Deliver); n != 3 {
			t.Errorf("%d of 3", n)
		}
	})
	t.Run("readers who may not have it wait behind those who do", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		notified(r, l)
		for range HandoffBudget {
			r.enter(shared("x"))
			r.take(Deliver)
		}
		r.enter(shared("x"))
		r.none(Deliver)
		r.phase(l, Draining)
		if cl := r.take(Join).Claim; cl.Request().Replaces != (engine.ID{}) {
			t.Error("it replaces what others use")
		}
	})
	t.Run("nobody waits is believed for a while only", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.now += Believe
		for range HandoffBudget {
			r.enter(shared("x"))
			r.take(Deliver)
		}
		r.enter(shared("x"))
		r.none(Deliver)
		r.phase(l, Draining)
	})
	t.Run("HandoffTime ends with its last moment", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		notified(r, l)
		r.enter(shared("x"))
		r.take(Deliver)
		r.now += HandoffTime
		r.enter(shared("x"))
		r.none(Deliver)
	})
	t.Run("the budget begins anew when others wait anew", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		notified(r, l)
		for range HandoffBudget {
			r.enter(shared("x"))
			r.take(Deliver)
		}
		r.now += ms
		r.after(RaiseAfter)
		r.renewed() // nobody waits any more
		r.now += ms
		notified(r, l)
		r.enter(shared("x"))
		r.take(Deliver)
	})
	t.Run("a notification of long ago does not take back a later one", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed(contended)
		if !l.Contended() {
			t.Error("not contended")
		}
		if o := r.take(Contend); o.Lease != l {
			t.Error("the holder was not told")
		}
	})
	t.Run("who enters behind tells the holder", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.EnterBehind(&Caller{Want: exclusive("x"), Lease: new(Lease)})
		if r.take(Contend).Lease != l || !l.Contended() {
			t.Error("not told")
		}
	})
	t.Run("it is contended before anybody is told", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.Unlock(r.now, l, true)
		next := r.take(Deliver).Lease
		if next.Contended() {
			t.Error("by nobody")
		}
		r.enter(exclusive("x"))
		second := r.enter(exclusive("x"))
		r.Unlock(r.now, next, true)
		if third := r.take(Deliver).Lease; !third.Contended() {
			t.Error("the second waits behind it") // who waited already, and told the one before
		}
		r.GiveUp(r.now, second)
	})
	t.Run("the answer of a Join that says that somebody waits begins a budget", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(shared("x"))
		cl := r.take(Join).Claim
		got := r.answer(cl, engine.Held, 5, FirstTTL)
		got.Contended = true
		r.Joined(r.now, cl, r.now, got, nil, false)
		for range HandoffBudget + 1 {
			r.take(Deliver)
			r.enter(shared("x"))
		}
		r.none(Deliver)
	})
	t.Run("a budget is counted from when somebody waits", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(shared("x"), 5)
		r.now += 500 * ms
		notified(r, l)
		n := 0
		for ; n < 100; n++ {
			r.enter(shared("x"))
			if r.count(Deliver) == 0 {
				break
			}
			r.take(Deliver)
		}
		if n != HandoffBudget {
			t.Errorf("%d leases, want %d", n, HandoffBudget)
		}
	})
}

func TestNotificationsBeforeTheAnswer(t *testing.T) {
	under := func(t *testing.T) (*rig, *Claim) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		return r, r.take(Join).Claim
	}
	t.Run("that it is held", func(t *testing.T) {
		r, cl := under(t)
		r.Notified(r.now, r.answer(cl, engine.Held, 5, 0))
		r.none(Deliver) // nothing is proven yet
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
		r.take(Deliver)
	})
	t.Run("that it is gone, which only a revocation makes final", func(t *testing.T) {
		r, cl := under(t)
		r.Notified(r.now, r.answer(cl, engine.Gone, 5, 0))
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 6, FirstTTL), nil, false)
		r.take(Deliver)
	})
	t.Run("that it was revoked, and then that it is gone", func(t *testing.T) {
		r, cl := under(t)
		r.Notified(r.now, engine.Claim{Name: "x", ID: cl.ID(), Ticket: 5, State: engine.Gone, Revoked: true})
		r.Notified(r.now, r.answer(cl, engine.Gone, 5, 0))
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Gone, 5, 0), nil, false)
		r.wantFail(Revoked)
	})
	t.Run("that somebody waits behind it", func(t *testing.T) {
		r, cl := under(t)
		s := r.now
		r.now += ms
		r.Notified(r.now, engine.Claim{Name: "x", ID: cl.ID(), Ticket: 5, State: engine.Held, Contended: true})
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		if l := r.take(Deliver).Lease; !l.Contended() {
			t.Error("forgotten")
		}
	})
	t.Run("that it is a good moment to try", func(t *testing.T) {
		r, cl := under(t)
		r.Notified(r.now, r.answer(cl, engine.Waiting, 5, 0))
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
		r.after(0)
		r.take(Renew)
	})
	t.Run("the answer itself says that somebody waits", func(t *testing.T) {
		r, cl := under(t)
		got := r.answer(cl, engine.Held, 5, FirstTTL)
		got.Contended = true
		r.Joined(r.now, cl, r.now, got, nil, false)
		if l := r.take(Deliver).Lease; !l.Contended() {
			t.Error("forgotten")
		}
	})
	t.Run("what a waiter hears of who waits outlives an answer while it waits", func(t *testing.T) {
		r, cl := under(t)
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
		r.notified(cl, engine.Waiting, contended)
		r.now += ms
		r.Tick(r.now)
		r.renewed(func(c *engine.Claim) { c.State = engine.Waiting })
		r.notified(cl, engine.Held)
		if l := r.take(Deliver).Lease; !l.Contended() {
			t.Error("forgotten")
		}
	})
	t.Run("a place that becomes held is renewed soon, in full", func(t *testing.T) {
		r, cl := under(t)
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
		r.notified(cl, engine.Held)
		r.after(RaiseAfter)
		if o := r.take(Renew); o.Want != ttl {
			t.Errorf("for %v", o.Want)
		}
	})
	t.Run("who was just granted does not ask for a subscription's sake", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.Began(r.now)
		r.after(0)
		r.none(Renew)
	})
	t.Run("of a claim that is being left: nothing", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.notified(l.Claim(), engine.Gone)
		r.notified(l.Claim(), engine.Held, contended)
		r.phase(l, Releasing)
		r.none(Lose)
		r.left(engine.Held)
		r.wantEnd(OK)
	})
	t.Run("advice with every answer", func(t *testing.T) {
		r, cl := under(t)
		r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
		r.after(FirstTTL / 3)
		r.renewed(func(c *engine.Claim) { c.State, c.PollAfter = engine.Waiting, 20*ms })
		if due, _ := r.Due(); due != r.now+21*ms {
			t.Errorf("looked at in %v", due-r.now)
		}
	})
}

func TestAdopting(t *testing.T) {
	const token = 7<<engine.HandoffBits | 3
	adopt := func(r *rig, w Want, change ...func(*engine.Claim)) {
		got := engine.Claim{Name: "x", ID: engine.ID{1}, Ticket: 7, State: engine.Held, TTL: ttl}
		for _, f := range change {
			f(&got)
		}
		r.Adopt(r.now, r.now, &Caller{Want: w, Lease: new(Lease)}, engine.ID{1}, token, got)
	}
	t.Run("its token, and its renewals", func(t *testing.T) {
		r := newRig(t, Config{Detached: true})
		adopt(r, exclusive("x"))
		l := r.take(Deliver).Lease
		if l.Token != token {
			t.Errorf("%d", l.Token)
		}
		r.after(ttl/3 - ttl/20)
		r.none(Renew)
		r.after(ttl / 20)
		r.renewed()
		r.phase(l, InUse)
		adopt(r, exclusive("x"))
		r.wantFail(Own)
		r.Unlock(r.now, l, true)
		r.left(engine.Held)
		r.wantEnd(OK)
		r.wantEmpty()
	})
	t.Run("its options", func(t *testing.T) {
		w := exclusive("x")
		w.MaxHold, w.MinHold, w.NoRenew = time.Minute, time.Second, true
		r := newRig(t, Config{Detached: true})
		adopt(r, w)
		l := r.take(Deliver).Lease
		if cl := l.Claim(); cl.maxHold != w.MaxHold || cl.minHold != w.MinHold {
			t.Error("forgotten")
		}
		r.after(ttl)
		r.none(Renew)
		r.take(Lose)
	})
	t.Run("what is gone", func(t *testing.T) {
		r := newRig(t, Config{})
		adopt(r, exclusive("x"), func(c *engine.Claim) { c.State = engine.Gone })
		r.wantFail(Expired)
		r.wantEmpty()
	})
	t.Run("what was revoked is left", func(t *testing.T) {
		r := newRig(t, Config{})
		adopt(r, exclusive("x"), revoked)
		r.wantFail(Revoked)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
	t.Run("what is not proven any more is left", func(t *testing.T) {
		r := newRig(t, Config{})
		adopt(r, exclusive("x"), func(c *engine.Claim) { c.TTL = 0 })
		r.wantFail(Expired)
		r.after(0)
		r.left(engine.Held)
		r.wantEmpty()
	})
	t.Run("the answer of a call of before that began at the same moment", func(t *testing.T) {
		r := newRig(t, Config{Detached: true})
		w := exclusive("x")
		w.Detached = true
		r.enter(w)
		cl := r.joined(engine.Held, 7)
		r.after(RaiseAfter)
		of := r.take(Renew)
		r.proven(of, r.now, r.answer(cl, engine.Held, 7, ttl))
		l := r.take(Deliver).Lease
		r.RenewAll(r.now)
		r.after(0)
		of = r.take(Renew)
		r.Detach(r.now, l)
		got := r.answer(cl, engine.Held, 7, ttl)
		r.Adopt(r.now, r.now, &Caller{Want: w, Lease: new(Lease)}, cl.ID(), l.Token, got)
		r.take(Deliver)
		r.proven(of, r.now, got)
		r.after(ttl / 3)
		r.take(Renew)
	})
	t.Run("after Close", func(t *testing.T) {
		r := newRig(t, Config{})
		r.Close(r.now)
		adopt(r, exclusive("x"))
		r.wantFail(Closed)
		r.none(Deliver)
	})
}

func TestLeavingAgain(t *testing.T) {
	t.Run("a Leave that was not answered waits a moment", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.left(engine.Unknown)
		r.after(50*ms - 1)
		r.none(Leave)
		r.after(1)
		r.take(Leave)
	})
	t.Run("the answer of an old Unlock is told once", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.left(engine.Unknown)
		r.wantEnd(Unknown)
		r.after(50 * ms)
		r.left(engine.Held)
		r.none(End)
		r.wantEmpty()
	})
	t.Run("whoever gave up before the answer is replaced, and left until it must be gone", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.GiveUp(r.now, c)
		if cl.Phase() != Abandoned {
			t.Fatal(cl.Phase())
		}
		r.after(0)
		r.left(engine.Gone) // it may be on its way
		if cl.Phase() != Abandoned {
			t.Errorf("%v", cl.Phase())
		}
		r.enter(exclusive("x"))
		next := r.take(Join).Claim
		if next.Request().Replaces != cl.ID() {
			t.Error("the next does not replace it")
		}
		r.Joined(r.now, next, r.now, r.answer(next, engine.Held, 6, FirstTTL), nil, false)
		r.take(Deliver)
		if cl.Phase() != Abandoned {
			t.Error("it may still be on its way")
		}
		r.after(time.Second)
		r.take(Leave)
		for r.count(Renew) > 0 {
			r.renewed()
		}
		r.after(2 * FirstTTL)
		if cl.Phase() != Gone {
			t.Errorf("%v after %v", cl.Phase(), 2*FirstTTL)
		}
	})
	t.Run("one that was found marked is gone for good", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.GiveUp(r.now, c)
		r.after(0)
		r.left(engine.Gone, revoked)
		r.wantEmpty()
	})
	t.Run("a waiter whose Leave was not answered is replaced", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.joined(engine.Waiting, 5)
		r.GiveUp(r.now, c)
		r.after(0)
		r.left(engine.Unknown)
		r.enter(exclusive("x"))
		if next := r.take(Join).Claim; next.Request().Replaces != cl.ID() {
			t.Error("it is not")
		}
	})
	t.Run("an orphan is replaced once", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.left(engine.Unknown)
		l = r.hold(exclusive("x"), 6)
		r.enter(exclusive("x"))
		r.now = l.Ends()
		r.Tick(r.now)
		if next := r.take(Join).Claim; next.Request().Replaces != (engine.ID{}) {
			t.Error("twice")
		}
	})
	t.Run("the pauses begin anew", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		for range 5 {
			cl := r.take(Join).Claim
			r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
			r.after(time.Second)
		}
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, context.Canceled, true)
		r.GiveUp(r.now, cl.callers.head)
		r.after(0)
		r.left(engine.Unknown)
		if due, _ := r.Due(); due != r.now+50*ms {
			t.Errorf("left again in %v", due-r.now)
		}
	})
}

func TestClosing(t *testing.T) {
	t.Run("everybody is told, and every claim is left", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		held := r.hold(exclusive("held"), 1)
		r.enter(exclusive("held"))
		idle := r.hold(exclusive("kept"), 2)
		r.Unlock(r.now, idle, true)
		r.wantEnd(OK)
		r.enter(exclusive("waits"))
		r.joined(engine.Waiting, 3)
		r.enter(exclusive("asks"))
		asks := r.take(Join).Claim
		r.Close(r.now)
		if o := r.take(Lose); o.Lease != held || o.Reason != Closed {
			t.Error("the holder was not told")
		}
		for range 3 {
			r.wantFail(Closed)
		}
		if n := r.count(Leave); n != 4 {
			t.Errorf("%d of 4 left", n)
		}
		r.Unlock(r.now, held, true)
		r.wantEnd(Closed)
		r.Joined(r.now, asks, r.now, r.answer(asks, engine.Held, 4, FirstTTL), nil, false)
		r.none(Deliver)
		r.enter(exclusive("late"))
		r.wantFail(Closed)
		r.none(Join)
		r.Close(r.now)
		if n := r.count(Leave); n != 4 {
			t.Error("closed twice")
		}
	})
	t.Run("who asks for itself is told too", func(t *testing.T) {
		r := newRig(t, Config{NoLocalHandoff: true})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.Close(r.now)
		r.wantFail(Closed)
	})
	t.Run("an Unlock that is under way is answered", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.Close(r.now)
		if n := r.count(Leave); n != 1 {
			t.Errorf("left %d times", n)
		}
		r.left(engine.Held)
		r.wantEnd(OK)
	})
	t.Run("MinHold is asked for, and what lingers stays", func(t *testing.T) {
		w := exclusive("x")
		w.MinHold = time.Minute
		r := newRig(t, Config{})
		l := r.hold(w, 5)
		r.now += time.Second
		r.Close(r.now)
		if o := r.take(Lose); o.Reason != Closed {
			t.Error(o.Reason)
		}
		r.none(Leave)
		if o := r.take(Renew); o.Want != time.Minute-time.Second {
			t.Errorf("asked for %v", o.Want)
		}
		r.Unlock(r.now, l, true)
		r.wantEnd(Closed)

		r = newRig(t, Config{})
		l = r.hold(w, 5)
		r.Unlock(r.now, l, true)
		r.renewed()
		r.wantEnd(OK)
		r.Close(r.now)
		r.none(Leave)
	})
	t.Run("a lease whose time is up is lost to that", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.now = l.Ends()
		r.Close(r.now)
		if o := r.take(Lose); o.Reason != Expired {
			t.Error(o.Reason)
		}
		r.none(Lose)
	})
	t.Run("an engine that is down is not news", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.Close(r.now)
		r.left(engine.Unknown)
		r.none(Down)
		r.wantEnd(Unknown)
		if due, ok := r.Due(); ok {
			t.Errorf("due at %v", due)
		}
	})
}
