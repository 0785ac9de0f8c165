package leasehold

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"leasehold/engine"
)

// Token is a fencing token: ticket << 10 + lend count, below 2^63. Tokens of
// exclusive leases of one name only rise, where the engine declares Fencing:
// give them to the resource, and let it refuse any that is below the highest
// it has seen. It is a decimal string in JSON: readers that use doubles would
// lose its last digits.
type Token uint64

// String is the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText makes JSON write a string.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Token) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 10, 63)
	*t = Token(v)
	return err
}

// Ticket is the place in the line that the token was made from; it identifies
// the claim to Evict.
func (t Token) Ticket() uint64 { return uint64(t) >> engine.LendBits }

// Lease is a name held for a while. It is renewed by itself until Unlock.
//
// The lock alone cannot protect a resource from a holder that was paused after
// it looked: hand Token to the resource and let it check.
type Lease struct {
	core  *core
	name  string
	outer *Lease          // the innermost lease of the context it was asked with
	ctx   context.Context // asked with; once cancel is set, the lease's own
	lock  *LockOptions
	began time.Duration // asking; only where somebody wants to know

	over atomic.Bool // released or lost: read without mu by Valid
	own  hold

	// Under core.mu.
	ready      chan struct{} // capacity 1: delivered or failed
	line       *localLine    // while queued
	prev, next *Lease        // in line.head or claim.leases
	err        error         // why it was not delivered; once unlocked, what Unlock said
	claim      *claim
	hold       *hold // shared with re-entered leases
	token      Token // of one that gave up: of the claim it waited with
	heldAt     time.Duration
	cancel     context.CancelCauseFunc
	contended  chan struct{}
	lost       error
	lostFunc   func(error) // of a LockAll
	unlocked   bool
	unlocking  bool          // Unlock waits for the engine
	waiting    chan struct{} // closed then, if a second Unlock waits for the first
}

// hold is one caller's hold of a claim, counted up by re-entering.
type hold struct{ count int32 }

type leaseKey struct{}

// Name is what is held.
func (l *Lease) Name() string { return l.name }

// Token is the fencing token.
func (l *Lease) Token() Token { return l.token }

// Context is the lease's life: it carries the values of the context that the
// lease was asked with, and ends at Unlock, or with the cause ErrLost
// (ErrEvicted, ErrMaxHold) when the lease is lost, at its trusted-until at the
// latest.
//
// Whoever locks under it re-enters: the same name counts up instead of waiting
// for itself. Goroutines that share a lease's context therefore do NOT exclude
// each other: give a goroutine that must exclude its siblings a context that
// does not come from the lease.
func (l *Lease) Context() context.Context {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	if l.cancel == nil {
		ctx := context.WithValue(context.WithoutCancel(l.ctx), leaseKey{}, l)
		l.ctx, l.cancel = context.WithCancelCause(ctx)
		if l.over.Load() {
			l.cancel(l.lost)
		}
	}
	return l.ctx
}

// Valid reports whether the lease is still proven: not unlocked, not lost, and
// before its trusted-until. It reads the clock, takes no lock while the lease
// is good, and once false it stays false.
func (l *Lease) Valid() bool {
	if l.over.Load() {
		return false
	}
	if l.core.now() < l.claim.ends() {
		return true
	}
	// Either the time is up, or a renewal moved it between the two reads.
	// Under the mutex no renewal can: what it decides is final.
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	k.expire(l.claim, k.now())
	return !l.over.Load()
}

// Remaining is how long the lease is proven from now on if no renewal ever
// succeeds again; 0 once it is not valid. It is short (about 3 s or the TTL)
// in the first moments of a hold, until the first renewal.
func (l *Lease) Remaining() time.Duration {
	if !l.Valid() {
		return 0
	}
	return max(0, l.claim.ends()-l.core.now())
}

// Contended is closed once somebody waits for this name behind this lease,
// in this process or another (where the engine sees waiters). A long job can
// take it as the request to stop at the next good moment.
func (l *Lease) Contended() <-chan struct{} {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	if l.contended == nil {
		l.contended = make(chan struct{})
		cl := l.claim
		if cl.contended || (cl.line.cur == cl && cl.line.head != nil) {
			close(l.contended)
		}
	}
	return l.contended
}

func (l *Lease) tellContended() {
	if l.contended == nil {
		return
	}
	select {
	case <-l.contended:
	default:
		close(l.contended)
	}
}

// Unlock ends the lease. It needs no context, takes a few seconds at most with
// an engine that does not answer, may be called from any goroutine and any
// number of times, and tells the truth:
//
//   - nil: the lease was proven until this call.
//   - ErrLost (ErrEvicted, ErrMaxHold): it was not.
//   - ErrUnknown: it was, but the engine did not confirm the release; others
//     may wait until the TTL has passed.
//
// A lease that this process can hand to the next local caller, or of which
// another handle is still open (re-entered), ends without a round trip.
func (l *Lease) Unlock() error {
	k := l.core
	k.mu.Lock()
	if l.unlocked {
		return l.unlockedAlready()
	}
	rest := k.unlockLocal(l, k.now())
	k.unlock()
	switch rest {
	case leaveIt:
		k.leaveNow(l)
	case lingerIt:
		k.lingerOn(l)
	}
	return l.err
}

// rest is what of an Unlock is left to do without the mutex.
type rest uint8

const (
	nothing rest = iota
	leaveIt
	lingerIt
)

// unlockLocal does all of Unlock that needs no engine. Called with mu held.
func (k *core) unlockLocal(l *Lease, now time.Duration) rest {
	l.unlocked = true
	cl := l.claim
	k.expire(cl, now) // the truth is decided here, before anybody else may hold
	err := l.lost
	if err == nil {
		k.endLease(l, nil)
		k.event(Event{Kind: EventReleased, Name: l.name, Token: l.token, Units: cl.req.Units, Limit: cl.req.Limit, Held: now - l.heldAt})
	}
	cl.forget(l)
	l.err = wrap("unlock", l.name, err)
	if l.hold.count--; l.hold.count > 0 {
		return nothing
	}
	cl.users--
	todo := k.released(cl, l, now)
	if todo != nothing {
		l.unlocking = true
		k.unlocks.Add(1)
	}
	return todo
}

// finish records what the engine said. Called with mu held.
func (k *core) finish(l *Lease, err error) {
	l.err = wrap("unlock", l.name, err)
	l.unlocking = false
	if l.waiting != nil {
		close(l.waiting)
	}
	k.unlocks.Done()
}

// unlockedAlready answers a second Unlock as the first was, waiting for it.
// Called with mu held; frees it.
func (l *Lease) unlockedAlready() error {
	k := l.core
	if !l.unlocking {
		defer k.unlock()
		return l.err
	}
	if l.waiting == nil {
		l.waiting = make(chan struct{})
	}
	first := l.waiting
	k.unlock()
	<-first
	k.mu.Lock()
	defer k.unlock()
	return l.err
}

// endLease ends one lease: by loss, or with a nil cause by Unlock. Called with
// mu held.
func (k *core) endLease(l *Lease, cause error) {
	if l.over.Swap(true) {
		return
	}
	if l.lost = cause; cause != nil {
		cl := l.claim
		k.event(Event{Kind: EventLost, Name: l.name, Token: l.token, Units: cl.req.Units, Limit: cl.req.Limit, Held: k.now() - l.heldAt, Err: cause})
	}
	if l.cancel != nil {
		l.cancel(cause)
	}
	if l.lostFunc != nil && cause != nil {
		l.lostFunc(cause)
	}
}
