package leasehold

import (
	"context"
	"errors"
	"strconv"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// Token is a fencing token: ticket << 10 + handoff count, below 2^63. Tokens of
// exclusive leases of one name only rise, if the engine declares Fencing. Give them to
// the resource, and let it refuse any token below the highest it has seen. In JSON a
// token is a decimal string: readers that use doubles would lose the last digits of a
// number.
type Token uint64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText returns the token in decimal, so JSON writes a string.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Token) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 10, 63)
	*t = Token(v)
	return err
}

// Ticket returns the ticket that the token was made from: the claim's place in the
// queue. Revoke takes it.
func (t Token) Ticket() uint64 { return uint64(t) >> engine.HandoffBits }

// Lease is a name held for a while. The client renews it until Unlock.
//
// The lock alone cannot protect a resource from a holder that paused after it checked
// the lease. Hand Token to the resource and let the resource check it.
type Lease struct {
	core   *core
	name   string
	handle claims.Lease // the machine's half
	token  Token

	// Under core.mu.
	asked     context.Context // the lease was asked with it
	ctx       context.Context // the lease's own, once cancel is set
	cancel    context.CancelCauseFunc
	bound     *bindings
	contended chan struct{} // made when somebody asks for it
	lost      error         // why it was lost
	lostFunc  func(error)   // of a LockAll
	err       error         // what Unlock said
	over      bool          // Unlock is over
	pending   bool          // Unlock waits for the engine
	waiting   chan struct{} // closed when it is over, if somebody waits for that
}

// Name returns the locked name.
func (l *Lease) Name() string { return l.name }

// Token returns the fencing token.
func (l *Lease) Token() Token { return l.token }

// Fencing returns how long tokens of this name keep rising, as the engine declares it.
// With engine.FencingNone a token says nothing.
func (l *Lease) Fencing() engine.Fencing { return l.core.grants.Fencing }

// Mode returns the kind of the hold: engine.Exclusive, engine.Shared, or engine.Permits
// for some permits of a semaphore.
func (l *Lease) Mode() engine.Modes {
	cl := l.handle.Claim()
	return engine.ModeOf(cl.Permits(), cl.Limit())
}

// Context returns a context that lives as long as the lease. It ends at Unlock. If the
// lease is lost, it ends with the cause ErrLost (ErrRevoked, ErrMaxHold), at its
// trusted-until at the latest. It carries the values of the context that the lease was
// obtained with, but does not end with it. Work that must also end with a request takes
// a context from Bind.
//
// The context holds the name. A caller that asks for that name with it would wait for
// itself, and gets ErrReentry at once, or one more handle with LockOptions.Reentrant.
// context.WithoutCancel of it still holds the name. A goroutine that has to wait for
// the name needs a context that does not come from the lease.
func (l *Lease) Context() context.Context {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	if l.cancel == nil {
		ctx := context.WithValue(context.WithoutCancel(l.asked), leaseKey{}, l.handle.Holding())
		l.ctx, l.cancel = context.WithCancelCause(ctx)
		if l.handle.Over() {
			l.cancel(l.lost)
		}
	}
	return l.ctx
}

// Valid reports whether the lease is still proven: not unlocked, not lost, and before
// its trusted-until. It reads the clock and takes no mutex while the lease is good.
// Once false, it stays false.
func (l *Lease) Valid() bool {
	if l.handle.Over() {
		return false
	}
	k := l.core
	if k.now() < l.handle.Ends() {
		return true
	}
	// Either the time is up, or a renewal moved it between the two reads.
	// Under the mutex no renewal can: what is decided there is final.
	k.mu.Lock()
	defer k.unlock()
	k.machine.Expire(k.now(), &l.handle)
	k.carryOutLocked(nil)
	return !l.handle.Over()
}

// Remaining returns how long the lease stays proven if no renewal succeeds any more,
// and 0 if it is not valid. It is short (about 3 s or the TTL) in the first moments of
// a hold, until the first renewal.
func (l *Lease) Remaining() time.Duration {
	if !l.Valid() {
		return 0
	}
	return max(0, l.handle.Ends()-l.core.now())
}

// Contended returns a channel that is closed once somebody waits behind this lease, in
// this process or another (if the engine sees waiters). A long job can take it as the
// request to stop at the next good moment.
func (l *Lease) Contended() <-chan struct{} {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	if l.contended == nil {
		l.contended = make(chan struct{})
		if l.handle.Contended() {
			close(l.contended)
		}
	}
	return l.contended
}

// Unlock ends the lease. It needs no context, and takes a few seconds at most if the
// engine does not answer. Any goroutine may call it, any number of times. It tells the
// truth:
//
//   - nil: the lease was proven until this call.
//   - ErrLost (ErrRevoked, ErrMaxHold): it was not.
//   - ErrUnknown: it was, but the engine did not confirm the release; others may wait
//     until the TTL has passed.
//
// A lease ends without a round trip if this process can hand its claim to the next
// local caller, or if another handle of it is still open (re-entered).
func (l *Lease) Unlock() error {
	k := l.core
	k.mu.Lock()
	defer k.unlock()
	k.unlockLocked(true, l)
	return l.resultLocked()
}

// unlockLocked ends leases that were not unlocked before, those that need the
// engine with one call, and frees mu meanwhile. keep: claims may be kept for a
// while (Options.IdleTimeout).
func (k *core) unlockLocked(keep bool, leases ...*Lease) {
	for _, l := range leases {
		if l.handle.Ended() {
			continue
		}
		now := k.now()
		k.machine.Unlock(now, &l.handle, keep)
		if l.handle.Lost() == claims.OK {
			l.eventLocked(Event{Kind: EventReleased, Held: now - l.handle.HeldAt})
			l.endContextsLocked(nil)
		}
	}
	mine := k.carryOutLocked(nil)
	for _, l := range leases {
		if !l.over && !l.pending {
			l.pending = true
			k.unlocks.Add(1)
		}
	}
	if len(mine.first) > 0 {
		k.unlock()
		k.leave(context.Background(), mine.first)
		k.mu.Lock()
	}
}

// resultLocked is what Unlock said, once that is known. It frees mu while it
// waits.
func (l *Lease) resultLocked() error {
	if !l.over {
		if l.waiting == nil {
			l.waiting = make(chan struct{})
		}
		k, over := l.core, l.waiting
		k.unlock()
		<-over
		k.mu.Lock()
	}
	return l.err
}

// endLocked records what the end of Unlock was.
func (l *Lease) endLocked(err error) {
	l.err, l.over = wrap("unlock", l.name, err), true
	if l.pending {
		l.core.unlocks.Done()
	}
	if l.waiting != nil {
		close(l.waiting)
	}
}

// lossLocked notifies the observer of the loss of a lease.
func (l *Lease) lossLocked(cause error) {
	e := Event{Kind: EventLost, Held: l.core.now() - l.handle.HeldAt, Err: cause}
	if why, ok := errors.AsType[*LostError](cause); ok {
		e.Reason = why.Reason
	} else if errors.Is(cause, ErrClosed) {
		e.Reason = LossClosed
	}
	if e.Reason == LossExpired {
		e.Silent = l.core.now() - l.handle.Claim().Proof()
	}
	if e.Reason != LossClosed {
		l.core.lookAfterLocked(l)
	}
	l.eventLocked(e)
}

// loseLocked ends a lease that is lost.
func (l *Lease) loseLocked(cause error) {
	l.lost = cause
	l.lossLocked(cause)
	l.endContextsLocked(cause)
	if l.lostFunc != nil {
		l.lostFunc(cause)
	}
}

func (l *Lease) contendLocked() {
	if l.contended == nil {
		return
	}
	select {
	case <-l.contended:
	default:
		close(l.contended)
	}
}

// eventLocked reports e, an event of the lease, and fills in which lease it is.
func (l *Lease) eventLocked(e Event) {
	if l.core.opts.Observer == nil {
		return
	}
	cl := l.handle.Claim()
	e.Name, e.Token, e.Permits, e.Limit, e.Context = l.name, l.token, cl.Permits(), cl.Limit(), l.asked
	l.core.eventLocked(e)
}
