package claims

import (
	"math"
	"time"

	"leasehold/engine"
)

// Want is what a caller asks for.
type Want struct {
	Name           string
	Permits, Limit int32
	TTL            time.Duration
	MinHold        time.Duration // keep the name at least so long, whatever Unlock says; such leases are not handed off
	MaxHold        time.Duration // lose the lease after that; not handed off
	NoWait         bool          // answer at once
	NoRenew        bool          // not handed off
	Detached       bool          // not handed off
	Alone          bool          // not handed off: the claim and what it shows are this caller's own
	Reentrant      bool          // count up where the caller's own context holds the name
}

// mayHandOff: such a lease may be made of any claim, and leaves one as it was.
// Lock and RLock share claims; permits are each caller's own.
func (w *Want) mayHandOff() bool {
	return w.lockLike() && w.MinHold == 0 && w.MaxHold == 0 && !w.NoRenew && !w.Detached && !w.Alone
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
	// owes the answer that says who holds the name, and what it last answered instead.
	Ticket uint64
	Silent bool
	Err    error

	callers    *callers // while it waits
	prev, next *Caller
}

// key: callers of one process who agree on all of this share claims.
type key struct {
	name           string
	permits, limit int32
	ttl            time.Duration
}

// queue is who in this process is next for a name. Its callers queue behind one
// claim, which belongs to the queue and not to its maker: while one lease
// of it is open the next caller gets it at memory speed (local handoff).
//
// Exclusive and shared callers of a name have queues of their own; between
// those, as between processes, the engine's queue decides.
type callers struct {
	key key

	head, tail *Caller   // first come, first served
	current    *Claim    // what the callers wait for, or are handed it; nil: none
	orphan     engine.ID // a claim whose Leave was not answered: the next Join replaces it
	err        error     // what the engine answered instead of an answer to the Join under way
	claims     int32     // claims that point here
	gone       uint16    // claims in a row that the engine had no more before anybody held one
	solo       bool      // one caller's own, not to be found by others
	sibling    *callers  // the next of the same name that callers share
}

// find is what callers share who ask for that, or nil.
func (m *Machine) find(k key) *callers {
	q := m.callersOf[k.name]
	for q != nil && q.key != k {
		q = q.sibling
	}
	return q
}

// found has q found by others.
func (m *Machine) found(q *callers) {
	q.sibling = m.callersOf[q.key.name]
	m.callersOf[q.key.name] = q
}

// unfound has q not found any more, if it was.
func (m *Machine) unfound(q *callers) {
	first := m.callersOf[q.key.name]
	if first == q {
		if q.sibling == nil {
			delete(m.callersOf, q.key.name)
		} else {
			m.callersOf[q.key.name] = q.sibling
		}
		return
	}
	for ; first != nil; first = first.sibling {
		if first.sibling == q {
			first.sibling = q.sibling
			return
		}
	}
}

// inTheWay are the claims of a name that this process has for callers outside own, and
// beside which a claim like k is not held. That may be one of the same key: a caller that
// asks for itself is not in the queue that others of its key share.
func (m *Machine) inTheWay(k key, own *callers, yield func(*Claim)) {
	for q := m.callersOf[k.name]; q != nil; q = q.sibling {
		if cl := q.current; q != own && cl != nil && (cl.limit != k.limit || int64(cl.permits)+int64(k.permits) > int64(k.limit)) {
			yield(cl)
		}
	}
}

func (q *callers) push(c *Caller) {
	c.callers, c.prev, c.next = q, q.tail, nil
	if q.tail != nil {
		q.tail.next = c
	} else {
		q.head = c
	}
	q.tail = c
}

func (q *callers) pop() *Caller {
	c := q.head
	q.remove(c)
	return c
}

func (q *callers) remove(c *Caller) {
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
	c.callers, c.prev, c.next = nil, nil, nil
}

// again counts a claim that is gone before anybody held it.
func (q *callers) again(cl *Claim) {
	if q.current == cl && !cl.noWait && q.gone < math.MaxUint16 {
		q.gone++
	}
}

// release: cl is not what the callers wait for any more.
func (q *callers) release(cl *Claim) {
	if q.current == cl {
		q.current = nil
	}
}

func (m *Machine) fail(c *Caller, why Reason, err error) {
	m.emit(Output{Act: Fail, Caller: c, Reason: why, Err: err})
}

// failAll answers everybody in the queue.
func (m *Machine) failAll(q *callers, why Reason, err error) {
	for q.head != nil {
		m.fail(q.pop(), why, err)
	}
}

// failClaim answers everybody who waits for cl. The queue may wait for another
// claim by now: those who came after cl was given up.
func (m *Machine) failClaim(cl *Claim, why Reason, err error) {
	if cl.callers.current == cl {
		cl.callers.current = nil
		m.failAll(cl.callers, why, err)
	}
}
