package joined

import (
	"time"

	"leasehold/engine"
)

// Tries are the calls by which claims try to take a lock, in the layouts without
// order: their Join, and each Renew of a claim that waits. Several may be under way
// at once, and a Leave must not be overtaken by one: it would take the lock for
// nobody, until its TTL. There are two ways.
//
//   - The try was not sent yet when its claim was left. Whoever tries says Begin and
//     looks then whether the claim still waits; whoever leaves says first that it does
//     not, and asks Doubt then. So either the one sees that the claim was left, or the
//     other sees the try.
//   - The try was sent, and nobody knows where it is: it is under way, or its caller
//     has gone, or its connection broke. Redis carries out in order what came on one
//     connection, and that of a try that was cut off is another than the Leave's: what
//     was sent on it may arrive later, after as long as a network keeps a packet. No
//     waiting ends that. So the Leave of a claim in doubt leaves a mark beside the
//     lock, in the step in which it gives it up, and a try that finds the mark of its
//     claim is void.
//
// The zero value is ready to use.
type Tries struct{ known Map[tried] }

// tried is what is known of the tries of one claim.
type tried struct {
	underWay int
	cut      bool // one ended without an answer, and may arrive yet
}

// Begin records that a try may be sent from now on.
func (t *Tries) Begin(id engine.ID, ttl time.Duration) {
	t.known.change(id, ttl+slack, func(v *tried) bool {
		v.underWay++
		return true
	})
}

// End records that a try has ended. Answered: Redis has said what became of it, and no
// earlier attempt of it may arrive.
func (t *Tries) End(id engine.ID, answered bool) {
	t.known.change(id, 0, func(v *tried) bool {
		v.underWay--
		v.cut = v.cut || !answered
		return v.underWay > 0 || v.cut
	})
}

// Doubt reports whether a try of a claim may arrive yet.
func (t *Tries) Indeterminate(id engine.ID) bool {
	_, _, ok := t.known.Get(id)
	return ok
}

// Left records that a claim was left, and all its tries are void.
func (t *Tries) Left(id engine.ID) {
	t.known.change(id, 0, func(v *tried) bool {
		v.cut = false
		return v.underWay > 0
	})
}
