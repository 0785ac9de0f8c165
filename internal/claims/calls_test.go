package claims

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

// Which calls are asked for, what for, and when: no fewer than are needed, and
// no more. Times here are those of the test, so they are exact.

func TestWhatARenewalAsksFor(t *testing.T) {
	waiting := func(c *engine.Claim) { c.State = engine.Waiting }
	t.Run("a place in the queue is raised beyond what it was born with, and not to the full TTL", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.after(FirstTTL/3 - ms)
		r.none(Renew)
		r.after(ms)
		if o := r.take(Renew); o.Want != 4*FirstTTL {
			t.Errorf("asked for %v", o.Want)
		}
	})
	t.Run("a new subscription raises nothing", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.Began(r.now)
		r.after(0)
		if o := r.take(Renew); o.Want != FirstTTL {
			t.Errorf("asked for %v", o.Want)
		}
	})
	t.Run("never for more than the TTL of its leases", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.TTL = 5 * time.Second
		r.enter(w)
		r.joined(engine.Waiting, 5)
		r.after(FirstTTL / 3)
		if o := r.take(Renew); o.Want != w.TTL || o.Bound > w.TTL {
			t.Errorf("asked for %v within %v", o.Want, o.Bound)
		}
		w.TTL = time.Second
		r.enter(w)
		if cl := r.take(Join).Claim; cl.Request().WaitTTL != w.TTL {
			t.Errorf("born with %v", cl.Request().WaitTTL)
		}
	})
	t.Run("the rest of MinHold, within what an engine can grant", func(t *testing.T) {
		for hold, want := range map[time.Duration]time.Duration{
			72 * time.Hour: engine.MaxTTL, 10 * time.Millisecond: engine.MinTTL, time.Minute: time.Minute,
		} {
			r := newRig(t, Config{})
			w := exclusive("x")
			w.MinHold = hold
			l := r.hold(w, 5)
			r.Unlock(r.now, l, true)
			if o := r.take(Renew); o.Want != want {
				t.Errorf("MinHold %v: asked for %v, want %v", hold, o.Want, want)
			}
		}
	})
	t.Run("a MinHold longer than one call can ask for is asked for again", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.MinHold = 72 * time.Hour
		l := r.hold(w, 5)
		r.Unlock(r.now, l, true)
		begin := r.now
		for range 6 { // every eight hours, until a day does for the rest
			r.renewed()
			r.after(engine.MaxTTL / 3)
		}
		r.renewed()
		r.after(begin + 72*time.Hour - ms - r.now)
		r.none(Renew)
		r.none(Leave)
		r.after(ms)
		r.take(Leave)
	})
	t.Run("a MinHold that one call asked for is not asked for again", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.MinHold = time.Hour
		l := r.hold(w, 5)
		r.Unlock(r.now, l, true)
		r.renewed()
		r.after(time.Hour - ms)
		r.none(Renew)
		r.none(Leave)
	})
	t.Run("a renewal is given no longer than its answer could help", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		if o := r.take(Renew); o.Want != ttl || o.Bound != FirstTTL {
			t.Errorf("for %v within %v", o.Want, o.Bound)
		}
	})
	t.Run("who is next polls at a third of what it was born with", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		for range 10 {
			r.after(FirstTTL / 3)
			r.renewed(waiting, func(c *engine.Claim) { c.PollAfter = time.Minute })
			r.none(Renew)
		}
	})
	t.Run("a fleet that waits looks four times less often", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.after(FirstTTL / 3) // the first look raises it
		for range 10 {
			r.renewed(waiting)
			r.after(4*FirstTTL/3 - ms)
			r.none(Renew)
			r.after(ms)
		}
	})
}

func TestWhenARenewalIsDue(t *testing.T) {
	// raised is a lease whose claim was renewed for its full TTL just now.
	raised := func(r *rig) *Lease {
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		return l
	}
	due := func(r *rig, want time.Duration) {
		r.t.Helper()
		if at, ok := r.Due(); !ok || at != r.now+want {
			r.t.Errorf("due in %v (%v), want %v", at-r.now, ok, want)
		}
	}
	t.Run("a third of the TTL after the last", func(t *testing.T) {
		r := newRig(t, Config{})
		raised(r)
		due(r, ttl/3)
		r.after(ttl / 3)
		if n := r.count(Renew); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
	t.Run("counted from the start of the call", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		o, s := r.take(Renew), r.now
		r.now += 500 * ms
		r.proven(o, s, r.answer(l.Claim(), engine.Held, 5, ttl))
		due(r, ttl/3-500*ms)
	})
	t.Run("what is due within a quarter of a renewal interval shares a call", func(t *testing.T) {
		const renewalInterval = ttl / 3
		for later, want := range map[time.Duration]int{RaiseAfter: 2, renewalInterval / 4: 2, renewalInterval/4 + ms: 1, renewalInterval - ms: 1} {
			r := newRig(t, Config{})
			raised(r)
			first, _ := r.Due()
			r.now += later - RaiseAfter
			r.hold(exclusive("y"), 6)
			r.after(RaiseAfter)
			r.renewed()
			r.now = first
			r.Tick(r.now)
			if n := r.count(Renew); n != want {
				t.Errorf("%d renewals in one look, of claims that are due %v apart", n, later)
			}
		}
	})
	t.Run("what is looked at often is not looked at with all else", func(t *testing.T) {
		r := newRig(t, Config{})
		raised(r)
		r.enter(exclusive("x")) // waits in this process
		r.hold(exclusive("y"), 6)
		r.after(RaiseAfter)
		if n := r.count(Renew); n != 1 {
			t.Errorf("%d renewals, and one is due", n)
		}
	})
	t.Run("what shall not be renewed is not, beside what is", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.NoRenew = true
		l := r.hold(w, 5)
		r.now = l.Ends() - 100*ms - RaiseAfter
		r.hold(exclusive("y"), 6)
		r.after(RaiseAfter)
		if o := r.take(Renew); o.Claim.Name() != "y" || r.count(Renew) > 0 {
			t.Error("it was renewed")
		}
	})
	t.Run("a short hold has no renewal, beside others either", func(t *testing.T) {
		r := newRig(t, Config{})
		raised(r)
		first, _ := r.Due()
		r.now = first - RaiseAfter + 30*ms
		r.hold(exclusive("y"), 6)
		r.now = first
		r.Tick(r.now)
		if o := r.take(Renew); o.Claim.Name() != "x" || r.count(Renew) > 0 {
			t.Error("it was renewed")
		}
	})
	t.Run("an engine that is down for long is asked once in a look", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := raised(r)
		r.Unlock(r.now, l, true)
		for end := r.now + 5*ttl; r.now < end; {
			r.now, _ = r.Due()
			r.Tick(r.now)
			if n := r.count(Renew); n != 1 {
				t.Fatalf("%d renewals at %v", n, r.now)
			}
			r.failRenew()
		}
	})
	t.Run("nothing is renewed early by itself", func(t *testing.T) {
		r := newRig(t, Config{})
		raised(r)
		due, _ := r.Due()
		r.now = due - ms
		r.Tick(r.now)
		r.none(Renew)
	})
	t.Run("one that hangs is followed by another, and a third, and no more", func(t *testing.T) {
		r := newRig(t, Config{})
		l := raised(r)
		r.after(l.Ends() - r.now - ms)
		if n := r.count(Renew); n != 2 {
			t.Errorf("%d renewals in two thirds of a TTL", n)
		}
		r = newRig(t, Config{})
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 5)
		r.after(time.Hour)
		if n := r.count(Renew); n != attempts {
			t.Errorf("%d renewals under way", n)
		}
		r.failRenew()
		r.after(time.Second)
		if n := r.count(Renew); n != attempts {
			t.Errorf("%d renewals under way after one failed", n)
		}
	})
	t.Run("an engine that is down is asked again, less and less often", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.joined(engine.Waiting, 5)
		r.after(FirstTTL / 3)
		pauses := []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second}
		for _, p := range pauses {
			o := r.take(Renew)
			r.unproven(o, r.now)
			due(r, p)
			r.after(p)
		}
		// One answer, and it begins anew.
		o := r.take(Renew)
		r.proven(o, r.now, r.answer(cl, engine.Waiting, 5, o.Want))
		r.after(4 * FirstTTL / 3)
		r.failRenew()
		due(r, 50*ms)
	})
	t.Run("a Join as well", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		for _, p := range []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second} {
			cl := r.take(Join).Claim
			r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
			due(r, p)
			r.after(p)
		}
		if n := r.count(Down); n != 1 {
			t.Errorf("told %d times that the engine is down", n)
		}
		down := r.take(Down)
		if down.Err == nil {
			t.Error("not why")
		}
		r.joined(engine.Held, 5)
		if up := r.take(Up); up.Want != 2550*ms {
			t.Errorf("down for %v", up.Want)
		}
	})
	t.Run("a Leave as well, until the claim must have expired", func(t *testing.T) {
		r := newRig(t, Config{})
		l := raised(r)
		r.Unlock(r.now, l, true)
		begin, calls := r.now, 0
		for r.count(Leave) > 0 {
			r.left(engine.Unknown)
			calls++
			if next, ok := r.Due(); ok {
				r.after(next - r.now)
			}
		}
		r.wantEmpty()
		if took := r.now - begin; took < ttl || took > ttl+2*time.Second {
			t.Errorf("given up after %v", took)
		}
		if calls < 28 || calls > 40 {
			t.Errorf("%d calls in %v", calls, ttl)
		}
	})
	t.Run("a refusal says that the engine is there", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, engine.Refuse("no"), false)
		r.none(Down)
		r.wantFail(Refused)
		r.wantEmpty()
	})
	t.Run("an older call's failure asks nothing of one that was renewed since", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		first, s := r.take(Renew), r.now
		r.after(time.Second)
		second := r.take(Renew)
		r.proven(second, r.now, r.answer(l.Claim(), engine.Held, 5, ttl))
		r.unproven(first, s)
		due(r, ttl/3)
	})
	t.Run("a failure does not put off what was due sooner", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.joined(engine.Waiting, 5)
		r.after(FirstTTL / 3)
		o := r.take(Renew)
		r.notified(cl, engine.Waiting) // a good moment to try
		r.unproven(o, r.now)
		due(r, 0)
	})
	t.Run("a reason to ask that came before the call is over with it", func(t *testing.T) {
		r := newRig(t, Config{})
		raised(r)
		r.Began(r.now)
		r.after(0)
		r.renewed()
		r.after(0)
		r.none(Renew)
		due(r, ttl/3)
	})
	t.Run("a reason to ask a Join again is over with that", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.Joined(r.now, cl, r.now, engine.Claim{}, errCut, false)
		r.Began(r.now)
		r.after(0)
		r.joined(engine.Waiting, 5)
		r.after(0)
		r.none(Renew)
	})
	t.Run("a wall clock that was stepped has all renewed", func(t *testing.T) {
		r := newRig(t, Config{})
		l := raised(r)
		r.enter(exclusive("y"))
		r.joined(engine.Waiting, 6)
		r.RenewAll(r.now)
		r.after(0)
		if n := r.count(Renew); n != 2 {
			t.Errorf("%d renewals", n)
		}
		if l.Over() {
			t.Error("lost by it")
		}
	})
	t.Run("a slow engine gets more time for the first call, and less again", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		r.now += FirstTTL
		r.Joined(r.now, cl, r.now-FirstTTL, engine.Claim{}, context.DeadlineExceeded, false)
		r.after(50 * ms)
		if again := r.take(Join).Claim; again.Request().WaitTTL != 2*FirstTTL {
			t.Errorf("asked again for %v", again.Request().WaitTTL)
		}
		r.enter(exclusive("y"))
		other := r.take(Join).Claim
		if other.Request().WaitTTL != 2*FirstTTL {
			t.Errorf("the next is born with %v", other.Request().WaitTTL)
		}
		r.Joined(r.now, other, r.now, r.answer(other, engine.Held, 6, 2*FirstTTL), nil, false)
		r.enter(exclusive("z"))
		if next := r.take(Join).Claim; next.Request().WaitTTL != FirstTTL {
			t.Errorf("after a quick answer the next is born with %v", next.Request().WaitTTL)
		}
		r.GiveUp(r.now, c)
	})
	t.Run("an answer that is late proves nothing, and the next asks for more", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		s := r.now
		r.now += FirstTTL
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
		r.enter(exclusive("y"))
		if next := r.take(Join).Claim; next.Request().WaitTTL != 2*FirstTTL {
			t.Errorf("the next is born with %v", next.Request().WaitTTL)
		}
	})
	t.Run("nothing is due after Close", func(t *testing.T) {
		r := newRig(t, Config{})
		raised(r)
		r.enter(exclusive("y"))
		cl := r.joined(engine.Waiting, 6)
		r.Close(r.now)
		r.Notified(r.now, r.answer(cl, engine.Held, 6, 0))
		r.none(Deliver)
		if n := r.count(Leave); n != 2 {
			t.Errorf("%d Leaves", n)
		}
		r.RenewAll(r.now)
		if at, ok := r.Due(); ok {
			t.Errorf("due at %v", at)
		}
	})
	t.Run("a look has a bound", func(t *testing.T) {
		r := newRig(t, Config{})
		for i := range MaxTick + 10 {
			w := exclusive(string(rune('a' + i)))
			r.enter(w)
			r.joined(engine.Waiting, uint64(i+1))
		}
		r.now += FirstTTL / 3
		r.Tick(r.now)
		if n := r.count(Renew); n != MaxTick {
			t.Errorf("%d renewals in one look", n)
		}
	})
	t.Run("answers are found in any order", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.enter(exclusive("y"))
		x, y := r.joined(engine.Waiting, 1), r.joined(engine.Waiting, 2)
		r.after(FirstTTL / 3)
		asked := []engine.Renewal{{Name: "x", ID: x.ID(), Want: ttl}, {Name: "y", ID: y.ID(), Want: ttl}}
		got := []engine.Claim{r.answer(y, engine.Held, 2, ttl), r.answer(x, engine.Held, 1, ttl)}
		r.Renewed(r.now, r.now, asked, got, nil)
		if n := r.count(Deliver); n != 2 {
			t.Errorf("%d leases", n)
		}
	})
	t.Run("renewals say that the engine is down, and back", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.failRenew()
		r.take(Down)
		r.after(50 * ms)
		r.renewed()
		if up := r.take(Up); up.Want != 50*ms {
			t.Errorf("down for %v", up.Want)
		}
	})
}

func TestWhenItIsAskedWhetherOthersWait(t *testing.T) {
	t.Run("soon while callers here queue", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"))
		r.after(RaiseAfter)
		r.renewed()
		for range 5 {
			r.after(Listen)
			r.renewed()
			r.none(Renew)
		}
	})
	t.Run("soon while it is kept", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		r.Unlock(r.now, l, true)
		for range 5 {
			r.after(Listen)
			r.renewed()
			r.none(Renew)
		}
	})
	t.Run("not more often than is needed otherwise", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		r.after(ttl/3 - ttl/20)
		r.none(Renew)
	})
	t.Run("at once by who enters behind", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		c := &Caller{Want: exclusive("x"), Lease: new(Lease)}
		if !r.EnterBehind(c) {
			t.Fatal("it cannot queue")
		}
		if due, _ := r.Due(); due > r.now+Listen {
			t.Errorf("asked in %v", due-r.now)
		}
		if o := r.take(Contend); o.Lease != l {
			t.Error("the holder was not told")
		}
		r.enter(exclusive("x"))
		r.none(Contend) // once is enough
	})
}
