package claims

import (
	"testing"
	"time"

	"leasehold/engine"
)

// Schedules that the exploration found the machine to be wrong by.
func TestFound(t *testing.T) {
	// waits is a claim that waits, with the renewal that is under way for it.
	waits := func(r *rig) Output {
		r.enter(exclusive("x"))
		r.joined(engine.Waiting, 1)
		r.after(FirstTTL / 3)
		return r.take(Renew)
	}
	renewed := func(r *rig, o Output, got engine.Claim) {
		r.Renewed(r.now, r.now, []engine.Renewal{{Name: "x", ID: o.Claim.ID(), Want: o.Want}}, []engine.Claim{got}, nil)
	}

	t.Run("a renewal answered while it waited loses the lease that a notification gave at that very moment", func(t *testing.T) {
		r := newRig(t, Config{})
		o := waits(r)
		r.Notified(r.now, r.answer(o.Claim, engine.Held, 1, 0))
		l := r.take(Deliver).Lease
		renewed(r, o, r.answer(o.Claim, engine.Waiting, 1, o.Want))
		r.none(Lose)
		r.phase(l, InUse)
	})

	t.Run("a claim that was made anew while nobody had it yet is delivered, though it waits", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		cl := r.take(Join).Claim
		s := r.now
		r.now += FirstTTL // the answer comes when nothing is left of what it proves
		r.Joined(r.now, cl, s, r.answer(cl, engine.Held, 1, FirstTTL), nil, false)
		r.after(0)
		// The Join arrived a second time, behind somebody else's.
		o := r.take(Renew)
		renewed(r, o, r.answer(cl, engine.Waiting, 3, o.Want))
		r.none(Deliver)
		if cl.Phase() != Waiting {
			t.Errorf("phase %v", cl.Phase())
		}
		r.Notified(r.now, r.answer(cl, engine.Held, 3, 0))
		if l := r.take(Deliver).Lease; l.Token != 3<<engine.HandoffBits {
			t.Errorf("token %d", l.Token)
		}
	})

	t.Run("an answer from before somebody waited unsays that somebody does", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 1)
		cl := l.Claim()
		r.after(RaiseAfter)
		first, s := r.take(Renew), r.now // slow
		r.after(time.Second)
		second := r.take(Renew)
		got := r.answer(cl, engine.Held, 1, first.Want)
		got.Contended = true // it arrived after the second
		r.Renewed(r.now, s, []engine.Renewal{{Name: "x", ID: cl.ID(), Want: first.Want}}, []engine.Claim{got}, nil)
		renewed(r, second, r.answer(cl, engine.Held, 1, second.Want))
		r.enter(exclusive("x"))
		r.Unlock(r.now, l, true)
		if n := cl.contention.budget; n != HandoffBudget-1 {
			t.Errorf("%d hands off are left, want %d", n, HandoffBudget-1)
		}
	})

	t.Run("a notification that a kept claim is revoked and contended gives it up twice", func(t *testing.T) {
		var steps []string
		r := newRig(t, Config{IdleTimeout: time.Minute, Trace: func(s Step) { steps = append(steps, s.Text) }})
		l := r.hold(exclusive("x"), 1)
		r.Unlock(r.now, l, true)
		got := r.answer(l.Claim(), engine.Gone, 1, 0)
		got.Contended, got.Revoked = true, true
		r.Notified(r.now, got)
		r.phase(l, Leaving)
		for _, s := range steps {
			if s == "leaving -> leaving" {
				t.Error(s)
			}
		}
	})

	t.Run("a subscription that begins while a renewal is under way is forgotten with its answer", func(t *testing.T) {
		r := newRig(t, Config{})
		o := waits(r)
		s := r.now
		r.now += ms // it arrived; the claim became held; and nobody could be told
		r.Began(r.now)
		r.Renewed(r.now, s, []engine.Renewal{{Name: "x", ID: o.Claim.ID(), Want: o.Want}},
			[]engine.Claim{r.answer(o.Claim, engine.Waiting, 1, o.Want)}, nil)
		r.after(0)
		r.take(Renew)
		r.Renewed(r.now, r.now, []engine.Renewal{{Name: "x", ID: o.Claim.ID(), Want: o.Want}},
			[]engine.Claim{r.answer(o.Claim, engine.Waiting, 1, o.Want)}, nil)
		r.after(0)
		r.none(Renew) // that one began after it
	})

	t.Run("MinHold was kept to its end, and Unlock says that it was not, since the answer came after the claim expired", func(t *testing.T) {
		r := newRig(t, Config{})
		w := exclusive("x")
		w.MinHold = time.Second
		r.enter(w)
		r.joined(engine.Held, 1)
		l := r.take(Deliver).Lease
		r.Unlock(r.now, l, true)
		o, s := r.take(Renew), r.now
		r.now += FirstTTL // the process was stopped
		r.Renewed(r.now, s, []engine.Renewal{{Name: "x", ID: o.Claim.ID(), Want: o.Want}},
			[]engine.Claim{r.answer(o.Claim, engine.Gone, 0, 0)}, nil)
		r.wantEnd(OK)
	})
}
