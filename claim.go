package leasehold

import (
	"sync/atomic"
	"time"

	"leasehold/engine"
)

// request is what a claim asks for, less its name, which the line has, and less
// its owner, which is needed only until it has joined and is the larger part.
type request struct {
	ID, Replaces engine.ID
	Units, Limit int32
	WaitTTL      time.Duration
	NoWait       bool
	Detached     bool
}

func (r *request) full(name string, o *engine.Owner) engine.Request {
	return engine.Request{Name: name, ID: r.ID, Owner: *o, Units: r.Units, Limit: r.Limit,
		WaitTTL: r.WaitTTL, NoWait: r.NoWait, Detached: r.Detached, Replaces: r.Replaces}
}

// claim is one place in the engine's line as this client knows it. All but
// trusted is under core.mu. There may be many thousands: fields of one size
// stand together, so that none is lost to padding.
type claim struct {
	line  *localLine
	req   request
	lock  *LockOptions  // of the caller it was made for
	owner *engine.Owner // until the Join is answered
	old   *claim        // what its Join replaces, until that is answered

	ticket uint64

	// trusted until = start of the last successful Join or Renew + granted TTL
	// (no more than was asked for) - margin. In one life of the claim (see reborn) it never moves earlier.
	// Zero: nothing proven yet.
	trusted atomic.Int64
	granted time.Duration // by that call, as far as it was asked for
	proof   time.Duration // its start
	born    time.Duration // start of the Join that was answered
	heldAt  time.Duration // when the first lease was made of it

	// contended: somebody waits behind, as far as is known. False is believed
	// only from a reply that began after the last time it was heard true.
	contendedAt time.Duration // when the budget of lending began; 0: it has not
	heard       time.Duration // when contended was last heard
	alone       time.Duration // start of the reply that said "not contended"

	leases *Lease // open ones, most recent first

	// What the keeper does next, and when.
	renewAt  time.Duration
	leaveEnd time.Duration // of leaving
	keptTill time.Duration // idle (Keep), or lingering (MinHold), until then
	due      time.Duration

	index    int32 // in the agenda, -1: not there
	users    int32 // holds, re-entered ones counted once
	budget   int32 // leases still lent while contended
	lends    uint16
	retries  uint16
	inflight uint8        // Renews under way
	state    engine.State // only rises

	joining   bool // not answered yet
	asking    bool // its Join or Leave is under way
	look      bool // a reason to ask was heard after the last call began
	abandoned bool // nobody wants it any more: Leave once the Join is answered
	raised    bool // its full TTL was granted while it was held
	evicted   bool
	contended bool
	spent     bool // lend no more
	lost      bool // sticky
	delivered bool // a lease was ever made of it
	unlocking bool // an Unlock is leaving it
	leaving   bool // give it up, again and again until answered or leaveEnd
	doubtful  bool // of leaving: its Join was not answered and may still arrive
	listening bool // renewed often since local callers wait behind it
	linger    bool // no lease is left, but MinHold is
	dropped   bool // nothing more to do with it
}

// margin is what a lease is shorter than its TTL (docs/design.md, section 4):
// clocks may run 1 % apart, and there is a moment between looking and using.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 7*time.Millisecond }

func (cl *claim) trustedUntil() time.Duration { return time.Duration(cl.trusted.Load()) }

// ends is when a lease of it ends unless renewed. It takes no lock: heldAt and
// lock are constant once a lease with MaxHold, which is never lent, exists.
func (cl *claim) ends() time.Duration {
	if cl.lock.MaxHold > 0 {
		return min(cl.trustedUntil(), cl.heldAt+cl.lock.MaxHold)
	}
	return cl.trustedUntil()
}

func (cl *claim) name() string { return cl.line.key.name }

func (cl *claim) exclusive() bool { return cl.req.Units == cl.req.Limit }

// ttl is the full TTL of its leases.
func (cl *claim) ttl() time.Duration { return cl.line.key.ttl }

// waitTTL is what it is renewed to while it waits: more than it was born with,
// so that an engine's pause does not reorder the line (rule 3).
func (cl *claim) waitTTL() time.Duration { return min(cl.ttl(), 4*cl.req.WaitTTL) }

// want is what the next Renew asks for.
func (cl *claim) want(now time.Duration) time.Duration {
	switch {
	case cl.linger:
		return min(max(cl.keptTill-now, engine.MinTTL), engine.MaxTTL)
	case cl.state == engine.Held:
		return cl.ttl()
	}
	if now < cl.born+cl.req.WaitTTL/3 {
		return cl.req.WaitTTL // asked early, by a new subscription: no reason to raise it
	}
	return cl.waitTTL()
}

// learn takes in a reply, to a call that began at s and asked for that much, which
// proves the claim is in line. More than was asked for is not believed: an engine
// whose clock was set back sees its old deadlines far ahead, and another grants
// past them once the clock comes right.
func (cl *claim) learn(s, asked time.Duration, got engine.Claim) {
	cl.reborn(got.Ticket)
	cl.state = max(cl.state, got.State)
	granted := min(asked, got.TTL)
	if until := int64(s + granted - margin(granted)); until > cl.trusted.Load() {
		cl.trusted.Store(until) // only ever under mu: no lost update
	}
	if s >= cl.proof {
		cl.proof, cl.granted = s, granted
	}
	switch {
	case got.State != engine.Held: // contended means something for holders only
	case got.Contended:
		cl.contended, cl.heard = true, max(cl.heard, s)
	case s > cl.heard:
		// Nobody waited at some moment after s, which is after the last time
		// somebody was heard to wait. An older reply must not unsay that.
		cl.contended, cl.contendedAt, cl.alone = false, 0, s
	}
}

// reborn takes in the ticket of a report. A Join that was asked for again and
// again may find that its first arrival expired meanwhile, and make the claim
// anew: what was heard of its former life, Held above all, is then void. The
// ticket tells lives apart, since it only rises.
func (cl *claim) reborn(ticket uint64) {
	if ticket > cl.ticket {
		cl.ticket, cl.state = ticket, engine.Unknown
		cl.trusted.Store(0)
	}
}

// stale reports whether a report with that ticket is of a former life.
func (cl *claim) stale(ticket uint64) bool { return ticket != 0 && ticket < cl.ticket }

// proven reports whether the claim may carry a lease at now.
func (cl *claim) proven(now time.Duration) bool {
	return cl.state == engine.Held && now < cl.trustedUntil()
}

// fresh: enough is left that a lease does not begin with its end in sight.
func (cl *claim) fresh(now time.Duration) bool {
	return cl.trustedUntil()-now >= cl.granted/2
}

func (cl *claim) tellContended() {
	for l := cl.leases; l != nil; l = l.next {
		l.tellContended()
	}
}

func (cl *claim) add(l *Lease) {
	l.prev, l.next = nil, cl.leases
	if cl.leases != nil {
		cl.leases.prev = l
	}
	cl.leases = l
}

func (cl *claim) forget(l *Lease) {
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		cl.leases = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
}
