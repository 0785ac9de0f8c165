package claims

import (
	"math"
	"time"

	"leasehold/engine"
)

// Want is what a caller asks for.
type Want struct {
	Name         string
	Units, Limit int32
	TTL          time.Duration
	MinHold      time.Duration // keep the name at least so long, whatever Unlock says; such leases are not lent
	MaxHold      time.Duration // lose the lease after that; not lent
	NoWait       bool          // answer at once
	NoRenew      bool          // not lent
	Detached     bool          // not lent
	Reentrant    bool          // count up where the caller's own context holds the name
}

// lendable: such a lease may be made of any claim, and leaves one as it was.
// Lock and RLock share claims; permits are each caller's own.
func (w *Want) lendable() bool {
	return w.lockLike() && w.MinHold == 0 && w.MaxHold == 0 && !w.NoRenew && !w.Detached
}

// lockLike: exclusive or shared, and no permit of a semaphore.
func (w *Want) lockLike() bool { return w.Limit == engine.Max }

// Caller is somebody who waits for a lease, from Enter until its Deliver or
// Fail, or until GiveUp.
type Caller struct {
	Want
	Lease *Lease        // what it gets; Lease.Outer is what it holds already
	Holds []engine.Hold // and what it holds besides
	Tag   any           // the shell's

	// After GiveUp: the ticket of the claim it waited with, whether the engine
	// has not said anything of that, and what it last answered instead.
	Ticket uint64
	Silent bool
	Err    error

	queue      *queue // while it waits
	prev, next *Caller
}

// key: callers of one process who agree on all of this share claims.
type key struct {
	name         string
	units, limit int32
	ttl          time.Duration
}

// queue is who in this process is next for a name. Its callers queue behind one
// claim, which belongs to the queue and not to whoever made it: while one lease
// of it is open the next caller gets it at memory speed (lending).
//
// Exclusive and shared callers of a name have queues of their own; between
// those, as between processes, the engine's line decides.
type queue struct {
	key key

	head, tail *Caller   // first come, first served
	current    *Claim    // what the callers wait for, or are lent; nil: none
	ghost      engine.ID // a claim whose Leave was not answered: the next Join replaces it
	err        error     // what the engine answered instead of an answer to the Join under way
	claims     int32     // claims that point here
	gone       uint16    // claims in a row that the engine had no more before anybody held one
	solo       bool      // one caller's own, not to be found by others
}

func (q *queue) push(c *Caller) {
	c.queue, c.prev, c.next = q, q.tail, nil
	if q.tail != nil {
		q.tail.next = c
	} else {
		q.head = c
	}
	q.tail = c
}

func (q *queue) pop() *Caller {
	c := q.head
	q.remove(c)
	return c
}

func (q *queue) remove(c *Caller) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		q.head = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		q.tail = c.prev
	}
	c.queue, c.prev, c.next = nil, nil, nil
}

// again counts a claim that is gone before anybody held it.
func (q *queue) again(cl *Claim) {
	if q.current == cl && !cl.noWait && q.gone < math.MaxUint16 {
		q.gone++
	}
}

// release: cl is not what the callers wait for any more.
func (q *queue) release(cl *Claim) {
	if q.current == cl {
		q.current = nil
	}
}

func (m *Machine) fail(c *Caller, why Reason, err error) {
	m.emit(Output{Act: Fail, Caller: c, Reason: why, Err: err})
}

// failAll answers everybody in the queue.
func (m *Machine) failAll(q *queue, why Reason, err error) {
	for q.head != nil {
		m.fail(q.pop(), why, err)
	}
}

// failClaim answers everybody who waits for cl. The queue may wait for another
// claim by now: those who came after cl was given up.
func (m *Machine) failClaim(cl *Claim, why Reason, err error) {
	if cl.queue.current == cl {
		cl.queue.current = nil
		m.failAll(cl.queue, why, err)
	}
}
