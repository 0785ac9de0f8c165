package claims

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

// How long a claim that was given up is left again and again: as long as it can
// still take room, or can still be made.
func TestLeavesAreRepeatedWhileThereMayBeSomethingToLeave(t *testing.T) {
	t.Run("a Join that arrives at the last moment makes a claim that lives as long once more", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		r.Joined(r.now, r.take(Join).Claim, r.now, engine.Claim{}, errCut, false)
		r.GiveUp(r.now, c)
		r.after(FirstTTL + FirstTTL/2)
		r.outs = nil
		r.after(FirstTTL / 2)
		if r.count(Leave) == 0 {
			t.Error("it is not left any more")
		}
		r.after(FirstTTL)
		r.wantEmpty()
	})
	t.Run("one that was granted its MinHold, longer than its TTL, and was revoked", func(t *testing.T) {
		r := newRig(t, Config{Detached: true})
		w := exclusive("x")
		w.MinHold = 10 * ttl
		l := r.hold(w, 5)
		r.Unlock(r.now, l, false)
		cl := r.renewed()
		r.wantEnd(OK)
		r.notified(cl, engine.Gone, revoked)
		r.after(5 * ttl)
		r.outs = nil
		r.after(2 * time.Second)
		if r.count(Leave) == 0 {
			t.Error("it keeps others out, and is not left any more")
		}
	})
}

// An engine whose answers take long is not as fast as ever because it answers.
func TestAnAnswerThatTookLongDoesNotShortenTheNextCall(t *testing.T) {
	r := newRig(t, Config{})
	r.enter(exclusive("x"))
	cl := r.take(Join).Claim
	r.now += FirstTTL
	r.Joined(r.now, cl, r.now-FirstTTL, engine.Claim{}, context.DeadlineExceeded, false)
	r.after(time.Second)
	cl = r.take(Join).Claim
	r.now += 2 * time.Second
	r.Joined(r.now, cl, r.now-2*time.Second, r.answer(cl, engine.Held, 5, 2*FirstTTL), nil, false)
	r.take(Deliver)
	r.enter(exclusive("y"))
	if got := r.take(Join).Claim.Request().WaitTTL; got != 2*FirstTTL {
		t.Errorf("the next claim is born with %v, want %v", got, 2*FirstTTL)
	}
}
