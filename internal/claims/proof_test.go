package claims

import (
	"testing"
	"time"

	"leasehold/engine"
)

// How much an answer proves, and for which life of a claim.
func TestProof(t *testing.T) {
	norenew := exclusive("x")
	norenew.NoRenew = true
	detached := exclusive("x")
	detached.Detached = true
	wait := func(r *rig, w Want) *Claim {
		r.enter(w)
		return r.joined(engine.Waiting, 5)
	}

	t.Run("clocks that run at different rates overlap", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		if want := r.now + 3*time.Second - 30*ms - 7*ms; l.Ends() != want {
			t.Errorf("ends at %v, want %v", l.Ends(), want)
		}
	})
	t.Run("less is granted than was asked for", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed(func(c *engine.Claim) { c.TTL = 10 * time.Second })
		if want := r.now + 10*time.Second - margin(10*time.Second); l.Ends() != want {
			t.Errorf("ends at %v, want %v", l.Ends(), want)
		}
	})
	t.Run("an answer that comes at the end of what it proves gives a lease", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		s := r.now
		r.now += FirstTTL - margin(FirstTTL)
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		r.none(Deliver)
	})
	t.Run("what nothing renews begins with less than its full TTL", func(t *testing.T) {
		for _, w := range []Want{norenew, detached} {
			r := newRig(t, Config{Detached: true})
			r.enter(w)
			r.joined(engine.Held, 5)
			r.none(Deliver)
			r.after(0)
			r.renewed()
			if want := r.now + ttl - margin(ttl); r.take(Deliver).Lease.Ends() != want {
				t.Error("not its full TTL")
			}
		}
	})
	t.Run("what nothing renews is asked for too little", func(t *testing.T) {
		// A claim that waited was renewed for less than its TTL.
		r := newRig(t, Config{})
		cl := wait(r, norenew)
		r.after(FirstTTL / 3)
		r.renewed()
		r.none(Deliver)
		r.after(0)
		if o := r.take(Renew); o.Want != ttl {
			t.Errorf("asked for %v", o.Want)
		} else {
			r.proven(o, r.now, r.answer(cl, engine.Held, 5, ttl))
		}
		r.take(Deliver)
	})
	t.Run("what is kept is handed off with its end in sight", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		r.Unlock(r.now, l, true)
		r.after(ttl * 3 / 4)
		r.enter(exclusive("x"))
		r.none(Deliver)
		r.after(0)
		r.renewed()
		if l := r.take(Deliver).Lease; l.Ends() != r.now+ttl-margin(ttl) {
			t.Errorf("ends at %v", l.Ends())
		}
	})
	t.Run("what is left of the last holder's time is handed off", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.now = l.Ends() - time.Second // no renewal was answered
		r.Unlock(r.now, l, true)
		r.none(Deliver)
		r.phase(l, Proving)
		r.after(0)
		r.renewed()
		r.take(Deliver)
	})
	t.Run("what was proven in a former incarnation is believed", func(t *testing.T) {
		r := newRig(t, Config{})
		cl := wait(r, exclusive("x"))
		r.after(FirstTTL / 3)
		r.renewed(func(c *engine.Claim) { c.State = engine.Waiting })
		r.after(4 * FirstTTL / 3)
		o := r.take(Renew)
		r.proven(o, r.now, r.answer(cl, engine.Waiting, 9, 2*time.Second))
		r.Notified(r.now, r.answer(cl, engine.Held, 9, 0))
		if l := r.take(Deliver).Lease; l.Ends() != r.now+2*time.Second-margin(2*time.Second) {
			t.Errorf("ends at %v from now", l.Ends()-r.now)
		}
	})
	t.Run("a notification of a new incarnation goes by the proof of the old one", func(t *testing.T) {
		r := newRig(t, Config{})
		cl := wait(r, exclusive("x"))
		r.Notified(r.now, r.answer(cl, engine.Held, 9, 0))
		r.none(Deliver)
		r.after(0)
		r.renewed()
		if l := r.take(Deliver).Lease; l.Token != 9<<engine.HandoffBits {
			t.Errorf("token %d", l.Token)
		}
	})
	t.Run("an answer from before the notification takes back what was not delivered yet", func(t *testing.T) {
		r := newRig(t, Config{})
		cl := wait(r, norenew)
		r.after(FirstTTL / 3)
		o, s := r.take(Renew), r.now
		r.now += ms
		r.notified(cl, engine.Held) // its full TTL is still to be asked for
		r.none(Deliver)
		r.proven(o, s, r.answer(cl, engine.Waiting, 5, o.Want))
		if cl.Phase() != Ready {
			t.Errorf("%v", cl.Phase())
		}
	})
	t.Run("what is made anew goes on with the TTL of its former incarnation", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(norenew)
		cl := r.take(Join).Claim
		s := r.now
		r.now += FirstTTL
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		r.after(0)
		o, s := r.take(Renew), r.now
		r.now += ttl // raised, but the answer came too late
		r.proven(o, s, r.answer(cl, engine.Held, 5, ttl))
		r.after(0)
		o = r.take(Renew)
		r.proven(o, r.now, r.answer(cl, engine.Waiting, 9, time.Second))
		r.Notified(r.now, r.answer(cl, engine.Held, 9, 0))
		r.none(Deliver)
	})
	t.Run("a lease ends a moment late", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.MaxHold = time.Second
		l := r.hold(w, 5)
		if want := r.now + time.Second; l.Ends() != want {
			t.Errorf("ends at %v, want %v", l.Ends(), want)
		}
		begin := r.now
		r.after(RaiseAfter)
		r.renewed()
		r.now = begin + time.Second
		if r.Expire(r.now, l); !l.Over() {
			t.Error("not at its MaxHold")
		}
		l = r.hold(shared("x"), 6)
		r.now = l.Ends()
		if r.Expire(r.now, l); !l.Over() {
			t.Error("not at its trusted-until")
		}
	})
	t.Run("MaxHold counts from when the claim was made", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.MaxHold = 10 * time.Second
		cl := wait(r, w)
		for range 20 {
			r.after(time.Second)
			for r.count(Renew) > 0 {
				r.renewed(func(c *engine.Claim) { c.State = engine.Waiting })
			}
		}
		r.notified(cl, engine.Held)
		l := r.take(Deliver).Lease
		r.after(RaiseAfter)
		r.renewed()
		if want := l.HeldAt + 10*time.Second; l.Ends() != want {
			t.Errorf("ends %v after it began", l.Ends()-l.HeldAt)
		}
	})
	t.Run("a process that was paused finds all its leases at once", func(t *testing.T) {
		r := newRig(t, Config{})
		a, b := r.hold(exclusive("x"), 5), r.hold(exclusive("y"), 6)
		r.enter(exclusive("z"))
		waits := r.joined(engine.Waiting, 7)
		r.after(RaiseAfter)
		r.renewed()
		r.renewed()
		r.now += time.Hour // the clock jumps
		r.Tick(r.now)
		r.take(Lose)
		r.take(Lose)
		r.none(Leave) // their holders may be at work
		if !a.Over() || !b.Over() {
			t.Error("not over")
		}
		// Who waits asks what became of its place, and is given a new one.
		o := r.take(Renew)
		if o.Claim != waits {
			t.Fatal("another")
		}
		r.proven(o, r.now, r.answer(waits, engine.Gone, 7, 0))
		r.joined(engine.Held, 9)
		r.take(Deliver)
		r.none(Renew)
	})
	t.Run("a lease handed off with a raised claim is watched too late", func(t *testing.T) {
		// The timers has the claim at its next renewal; its end may come first.
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(exclusive("x"), 5)
		r.Unlock(r.now, l, true)
		r.enter(exclusive("x"))
		l = r.take(Deliver).Lease
		r.after(l.Ends() - r.now)
		if o := r.take(Lose); o.Lease != l {
			t.Error("another")
		}
	})
	t.Run("with a slow engine what was just proven is never delivered", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		s := r.now
		r.now += FirstTTL - 500*ms // less than half is left, and there may never be more
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		r.take(Deliver)
	})
	t.Run("what a Join grants in full is asked for again", func(t *testing.T) {
		w := norenew
		w.TTL = time.Second
		r := newRig(t, Config{})
		r.enter(w)
		r.joined(engine.Held, 5)
		r.take(Deliver)
	})
	t.Run("quick answers make the first TTL shorter and shorter", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.hold(exclusive("y"), 6)
		r.enter(exclusive("z"))
		if got := r.take(Join).Claim.Request().WaitTTL; got != FirstTTL {
			t.Errorf("born with %v", got)
		}
	})
}
