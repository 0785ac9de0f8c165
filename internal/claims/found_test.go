package claims

import (
	"testing"

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

	t.Run("a renewal answered while it waited loses the lease that a note gave at that very moment", func(t *testing.T) {
		r := newRig(t, Config{})
		o := waits(r)
		r.Note(r.now, r.answer(o.Claim, engine.Held, 1, 0))
		l := r.take(Deliver).Lease
		renewed(r, o, r.answer(o.Claim, engine.Waiting, 1, o.Want))
		r.none(Lose)
		r.phase(l, InUse)
	})
}
