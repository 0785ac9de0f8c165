package claims

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"leasehold/engine"
)

// Claim is one place in the engine's queue as this client knows it. There may be
// many thousands: fields of one size stand together, so that none is lost to
// padding.
type Claim struct {
	callers *callers
	old     *Claim // Joining, Indeterminate, Cancelled: what its Join replaces

	// Owner is what others are to see of it. The machine does not look at it,
	// and drops it when no further Join is to say it.
	Owner *engine.Owner

	id, replaces   engine.ID
	ticket         uint64
	permits, limit int32

	// trusted until = start of the last successful Join or Renew + granted TTL
	// - margin. In one life of the claim (see reborn) it never moves earlier.
	// Zero: nothing proven yet. It is the one thing that is read without the
	// shell's mutex: Lease.Ends.
	trusted atomic.Int64
	granted time.Duration // by that call
	proof   time.Duration // its start
	waitTTL time.Duration // what it is born with
	born    time.Duration // start of the Join that was answered, or of Adopt's Renew
	minHold time.Duration
	maxHold time.Duration
	heldAt  time.Duration // Ready: since when; used: when its first lease began

	sent    time.Duration // when its last Renew was asked for; 0: it was answered since
	again   time.Duration // when what was not answered is asked for again; 0: nothing is
	advised time.Duration // Waiting: when to look, as the engine said; 0: it did not
	until   time.Duration // Idle, Lingering, Leaving, Abandoned: when the phase ends by itself
	due     time.Duration // by the timers: see due.go

	contention contention

	leases *Lease // open and lost ones that were not unlocked, most recent first
	serial uint64 // in the order of making
	waiter *Lease // Releasing, Lingering: whose Unlock waits for the answer

	index    int32 // in the timers, -1: not there
	users    int32 // of leases, re-entered ones counted once
	handoffs uint16
	retries  uint16
	inflight uint8 // Renews under way
	phase    Phase

	noWait, noRenew, detached bool

	asked  bool // its Join was sent
	raised bool // its full TTL was granted while it was held
	tries  bool // Waiting: it is in Machine.tries; Joining, Cancelled: that is a try
	poll   bool // a reason to ask was heard after the last call began

	// What notifications said while the Join was under way; they count once it is
	// answered.
	receivedHeld    bool // "you hold", of the life that ticket names
	receivedRevoked bool
}

// contention is what is known of whether somebody waits behind a held claim.
// "Nobody" is believed only from a reply that began after the last time it was
// said that somebody does.
type contention struct {
	received time.Duration // when "somebody" was last said
	alone    time.Duration // start of the reply that said "nobody"
	since    time.Duration // begin of the time that HandoffTime bounds
	budget   int32         // leases that may still be handed off; notCounted: not since yet
	yes      bool
}

const notCounted = -1

// margin is what a granted TTL is not trusted for: 1 % for clocks that run at
// different rates, 2 ms and 5 ms from looking to using.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 7*time.Millisecond }

// ID, Name and the rest are what its Join, Renew and Leave say.
func (cl *Claim) ID() engine.ID      { return cl.id }
func (cl *Claim) Name() string       { return cl.callers.key.name }
func (cl *Claim) Ticket() uint64     { return cl.ticket }
func (cl *Claim) Permits() int32     { return cl.permits }
func (cl *Claim) Limit() int32       { return cl.limit }
func (cl *Claim) TTL() time.Duration { return cl.callers.key.ttl } // the full one, of its leases
func (cl *Claim) Phase() Phase       { return cl.phase }

// Proof is when the call began that proved it last.
func (cl *Claim) Proof() time.Duration { return cl.proof }

// Request is what its Join asks for.
func (cl *Claim) Request() engine.Request {
	r := engine.Request{Name: cl.Name(), ID: cl.id, Permits: cl.permits, Limit: cl.limit,
		WaitTTL: cl.waitTTL, TTL: cl.TTL(), NoWait: cl.noWait, Detached: cl.detached, Replaces: cl.replaces}
	if cl.Owner != nil {
		r.Owner = *cl.Owner
	}
	return r
}

func (cl *Claim) exclusive() bool { return cl.permits == cl.limit }

func (cl *Claim) trustedUntil() time.Duration { return time.Duration(cl.trusted.Load()) }

// ends is when a lease of it ends unless renewed. It needs no mutex: heldAt and
// maxHold are constant once a lease with MaxHold, which is never handed off, exists.
func (cl *Claim) ends() time.Duration {
	if cl.maxHold > 0 {
		return min(cl.trustedUntil(), cl.heldAt+cl.maxHold)
	}
	return cl.trustedUntil()
}

// proven reports whether it may carry a lease at now.
func (cl *Claim) proven(now time.Duration) bool {
	return cl.phase.in(engineHeld) && now < cl.trustedUntil()
}

// fresh: enough is left that a lease does not begin with its end in sight.
func (cl *Claim) fresh(now time.Duration) bool { return cl.trustedUntil()-now >= cl.granted/2 }

// needsRaise: leases that are never renewed, or whose holder may leave this
// process, begin with their full TTL.
func (cl *Claim) needsRaise() bool { return (cl.noRenew || cl.detached) && !cl.raised }

// want is what the next Renew asks for, unless that is more than the engine grants
// (Config.Longest).
func (cl *Claim) want(now time.Duration) time.Duration {
	switch {
	case cl.phase == Lingering:
		return max(cl.until-now, engine.MinTTL)
	case cl.phase != Waiting:
		return cl.TTL()
	case now < cl.born+cl.waitTTL/3:
		return cl.waitTTL // asked early, by a new subscription: no reason to raise it
	}
	// More than it was born with, so that an engine's pause does not reorder
	// the queue (rule 3 of package engine).
	return min(cl.TTL(), 4*cl.waitTTL)
}

// learn takes in a reply that began at s, asked for want, and proves that the
// claim is in the queue. An engine whose clock was stepped may grant more than was
// asked for: that is not believed.
func (cl *Claim) learn(now, s, want time.Duration, got engine.Claim) {
	cl.reborn(got.Ticket)
	ttl := min(got.TTL, want)
	if until := int64(s + ttl - margin(ttl)); until > cl.trusted.Load() {
		cl.trusted.Store(until) // by one input at a time: no lost update
	}
	if s >= cl.proof {
		cl.proof, cl.granted = s, ttl
	}
	c := &cl.contention
	switch {
	case got.State != engine.Held: // contended means something for holders only
	case got.Contended:
		// At some moment between s and now, perhaps only now: with calls that
		// overlap, one that began later may have been answered before.
		c.yes, c.received = true, now
	case s > c.received:
		// Nobody waited at some moment after s, which is after the last time
		// somebody was said to wait. An older reply must not unsay that.
		c.yes, c.budget, c.alone = false, notCounted, s
	}
}

// reborn takes in the ticket of a report. A Join that was asked for again and
// again may find that its first arrival expired meanwhile, and make the claim
// anew: what was heard of its former incarnation, "you hold" above all, is then void.
// The ticket tells lives apart, since it only rises.
func (cl *Claim) reborn(ticket uint64) {
	if ticket > cl.ticket {
		cl.ticket, cl.receivedHeld = ticket, false
		cl.trusted.Store(0)
	}
}

// stale reports whether a report with that ticket is of a former incarnation.
func (cl *Claim) stale(ticket uint64) bool { return ticket != 0 && ticket < cl.ticket }

func (cl *Claim) add(l *Lease) {
	l.prev, l.next = nil, cl.leases
	if cl.leases != nil {
		cl.leases.prev = l
	}
	cl.leases = l
}

func (cl *Claim) remove(l *Lease) {
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

// to moves a claim to its next phase.
func (m *Machine) to(cl *Claim, p Phase) {
	if m.cfg.Trace != nil {
		m.tracePhase(cl, p)
	}
	cl.phase = p
}

// ready: the engine holds it for this client.
func (m *Machine) ready(now time.Duration, cl *Claim) {
	m.to(cl, Ready)
	cl.heldAt = now
}

// inOrder is every claim in the order of making.
func (m *Machine) inOrder() []*Claim {
	return slices.SortedFunc(maps.Values(m.claims), func(a, b *Claim) int { return cmp.Compare(a.serial, b.serial) })
}
