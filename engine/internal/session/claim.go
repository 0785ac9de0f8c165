package session

import "leasehold/engine"

// Phase is what has become of a claim.
type Phase uint8

// The phases, in the order in which a claim goes through them.
const (
	Making        Phase = iota // its node is being made: nobody knows whether it stands
	Unwanted                   // the same, and it was given up: what is made is to be removed
	Placed                     // it stands, and whether it may stay is not known
	Waiting                    // it stands in the queue
	Held                       // and is within the limit
	Settled                    // and has been for so long that it hears of what happens behind it
	Marked                     // it was revoked, and stands until it is left
	Leaving                    // it is being removed
	Indeterminate              // it was given up, and may stand, or come to stand, for all that is known
	Gone                       // it does not stand, or never did
	Revoked                    // the same, and somebody else ended it
)

// Stands reports whether a claim stands in the queue, for all that is known.
func (p Phase) Stands() bool { return p >= Placed && p <= Marked }

// Wanted reports whether it does and may be held.
func (p Phase) Wanted() bool { return p >= Placed && p <= Settled }

// Holds reports whether it is held.
func (p Phase) Holds() bool { return p == Held || p == Settled }

// Due is a set of what is to be asked of the store for a claim.
type Due uint8

const (
	Queue Due = 1 << iota // its queue has changed, or may have, since it was read
	Own                   // its own node has, or was never read
	Wake                  // it must write to its node, for who waits until it holds
)

// Node is one in a queue.
type Node struct {
	Key    string
	Ticket uint64 // tells apart those that have one key after the other; 0: none has
}

// Claim is one of this client's. Engines embed it; all but the first three fields belong
// to the machine, and are read with its engine's mutex held.
type Claim struct {
	engine.Request
	Queue string // what the store calls its queue
	Floor uint64 // tickets up to there are of the past

	Phase   Phase
	Due     Due
	Key     string // of its node; empty until it is known
	Session int64  // whose node it is; 0: not known

	// Ticket tells its lives apart: 0 until it is known. What has its key with a
	// higher one is the claim, made anew; a lower one is of a former incarnation.
	Ticket uint64

	Ahead         []Node // Waiting: what it waits for; the queue itself is Node{Key: Queue}
	Contended     bool   // holding: somebody waits, or was refused, behind it
	Indeterminate bool   // a request that makes it was not answered, and may arrive yet, in any phase

	listens  bool // its own node was read behind a watch: whatever changes is told
	notified notified
	since    int64 // holding: the queue's version when it was read; 0 once it is watched
}

// notified is what the client of a held claim knows.
type notified uint8

const (
	nothing notified = iota
	holds
	contends
)

// State is the claim, also of what embeds it.
func (c *Claim) State() *Claim { return c }

func (c *Claim) exclusive() bool { return c.Permits == c.Limit }

// news is what there is to know.
func (c *Claim) news() notified {
	switch {
	case !c.Phase.Holds():
		return nothing
	case c.Contended:
		return contends
	}
	return holds
}

// report is what a reply or a notification says of it.
func (c *Claim) report() engine.Claim {
	r := engine.Claim{Name: c.Name, ID: c.ID, Ticket: c.Ticket, Permits: c.Permits, Limit: c.Limit, State: engine.Gone}
	switch c.Phase {
	case Placed, Waiting:
		r.State = engine.Waiting
	case Held, Settled:
		r.State, r.Contended = engine.Held, c.Contended
	case Marked, Revoked:
		r.Revoked = true
	}
	return r
}
