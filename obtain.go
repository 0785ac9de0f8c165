package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
	"leasehold/internal/door"
)

var errWaited = errors.New("waited long enough")

// waiter is a call that waits for a lease: the shell's half of a caller. They
// are pooled, with their channel, since at a million hand-overs a second they
// are the larger half of the garbage; per client, since a channel from outside
// a synctest bubble must not get into it.
type waiter struct {
	claims.Caller
	lock  *LockOptions
	began time.Duration
	ready chan struct{} // capacity 1: answered
	call  uint64        // its number, if the Observer knows that it waits
	why   claims.Reason
	kind  EventKind // with why OK: how its lease began
	err   error
	names []engine.Hold // under core.mu: what its claim says that it holds
}

// ask is what a caller asks for.
type ask struct {
	op             string // as errors name it
	name           string
	permits, limit int32
	try            bool          // once, without waiting
	probe          bool          // the call goes on if it is refused: nobody needs to know by whom
	again          bool          // it was refused once, by somebody who was gone by then
	waits          uint64        // the Observer knows by this number that it waits
	began          time.Duration // when it was asked first, if that matters to anybody
}

// lock asks for all of a name.
func lock(name string) ask {
	return ask{op: "lock", name: name, permits: engine.Max, limit: engine.Max}
}

// rlock asks for a share of it.
func rlock(name string) ask { return ask{op: "rlock", name: name, permits: 1, limit: engine.Max} }

// once is a without waiting.
func (a ask) once() ask {
	a.try = true
	return a
}

// obtain is every way to a lease. The caller holds what its context says.
func (c *Client) obtain(ctx context.Context, a ask) (*Lease, error) {
	return c.obtainUnder(ctx, holding(ctx), a)
}

// obtainUnder is obtain for a caller who holds outer, and what that was
// obtained under.
func (c *Client) obtainUnder(ctx context.Context, outer *claims.Holding, a ask) (*Lease, error) {
	k, op, name := c.core, a.op, a.name
	if ctx.Err() != nil {
		return nil, k.endedBefore(ctx, a)
	}
	if err := engine.CheckName(name); err != nil {
		return nil, wrap(op, name, err)
	}
	want, err := c.want(name, a.permits, a.limit)
	if err != nil {
		return nil, wrap(op, name, err)
	}
	want.NoWait = a.try
	if c.lock.Wait > 0 && !a.try {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.lock.Wait, errWaited)
		defer cancel()
	}
	l := &Lease{core: k, name: name, asked: ctx}
	w := k.waiter(l, want, &c.lock, outer)
	defer k.waiters.Put(w)
	_, timed := ctx.Deadline()
	timed = (timed || k.opts.Observer != nil) && a.began == 0
	if k.opts.IdleTimeout > 0 && (want.NoWait || want.Limit != engine.Max) {
		if timed {
			a.began, timed = k.now(), false
		}
		k.releaseIdle(ctx, w)
	}

	k.mu.Lock()
	var entered time.Duration
	if !k.machine.EnterBehind(&w.Caller) {
		entered = k.now()
		k.machine.Enter(entered, &w.Caller)
	}
	mine := k.carryOutLocked(w)
	k.unlock()
	if timed {
		// The clock is a system call: what the machine needed anyway is good enough.
		// A caller that stands behind others reads it after it let go of mu, so it may
		// have its lease already.
		if a.began = entered; a.began == 0 {
			a.began = k.now()
		}
	}
	w.began = a.began
	if mine.join != nil {
		// The claim needs a Join, and this goroutine has nothing better to do:
		// an uncontended lock costs no hop between goroutines. If ctx ends in
		// the middle while others queue for the same claim, the keeper asks
		// again with the same ID.
		k.join(ctx, mine.call, entered, mine.join)
	}
	if k.opts.Observer != nil && !a.try && a.waits == 0 && len(w.ready) == 0 {
		k.mu.Lock()
		k.waitingCalls++
		a.waits = k.waitingCalls // once for a call, also where it asks anew
		own := k.machine.BehindOwn(&w.Caller)
		k.unlock()
		k.opts.Observer(Event{Kind: EventWaiting, Name: name, Permits: a.permits, Limit: a.limit, Call: a.waits, Own: own, Context: ctx})
	}
	w.call = a.waits
	if v, answered := k.await(ctx, w); !answered {
		k.mu.Lock()
		gaveUp := k.machine.GiveUp(k.now(), &w.Caller)
		k.carryOutLocked(nil)
		k.unlock()
		switch {
		case gaveUp && v.deadlock != nil:
			return nil, k.deadlocked(op, w, v.deadlock)
		case gaveUp && v.stale:
			// Others must not take it for a holder: with a new claim, at the end
			// of the queue.
			return c.obtainUnder(ctx, outer, a)
		case gaveUp:
			return nil, k.gaveUp(op, w, k.tooLate(ctx, w))
		}
		<-w.ready // answered in the meantime: that counts
	}
	if a.probe && w.why != claims.OK && !hasEnded(ctx) {
		return nil, refusal{cause(w.why, w.err)}
	}
	switch w.why {
	case claims.OK:
		k.began(w, l)
		return l, nil
	case claims.Unavailable:
		if ctx.Err() == context.Canceled && errors.Is(w.err, context.Canceled) {
			// It was the caller who cut its one try short.
			return nil, k.gaveUp(op, w, context.Cause(ctx))
		}
	case claims.Held:
		held := k.heldError(ctx, w)
		if held.free && !a.again {
			// Nobody to wait for. It may have been a claim that was only kept
			// (Options.IdleTimeout), whose client gave it back when it heard of this
			// refusal. Once: others may come and go for ever.
			a.again = true
			return c.obtainUnder(ctx, outer, a)
		}
		return nil, k.gaveUp(op, w, held)
	}
	return nil, k.gaveUp(op, w, cause(w.why, w.err))
}

// endedBefore is the error of a call whose ctx has ended before it asks. One that asks anew
// found the name held by somebody, and the Observer may know that it waited.
func (k *core) endedBefore(ctx context.Context, a ask) error {
	cause := context.Cause(ctx)
	switch {
	case cause == errWaited:
		cause = ErrHeld
	case a.began > 0 && ctx.Err() == context.DeadlineExceeded:
		cause = fmt.Errorf("%w (%w)", ErrHeld, cause)
	}
	err := wrap(a.op, a.name, cause)
	if a.waits != 0 {
		k.opts.Observer(Event{Kind: EventGaveUp, Name: a.name, Permits: a.permits, Limit: a.limit, Call: a.waits, Context: ctx, Waited: k.now() - a.began, Err: err})
	}
	return err
}

// releaseIdle gives back the claims that this client keeps of the name for nobody, if they
// would have w refused: it does not wait, or asks for permits of another limit. It waits
// for that until ctx ends.
func (k *core) releaseIdle(ctx context.Context, w *waiter) {
	k.mu.Lock()
	k.machine.ReleaseIdle(k.now(), &w.Caller)
	mine := k.carryOutLocked(nil)
	if len(mine.first) == 0 {
		k.unlock()
		return
	}
	// Not in this goroutine: the Leave goes on if the caller has had enough.
	over := make(chan struct{})
	k.spawnLocked(func() { // not closed, or there were nothing to leave
		defer close(over)
		k.leave(k.life, mine.first)
	})
	k.unlock()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// longestHold bounds MinHold and MaxHold. No process lives that long, and a moment that is
// farther away could overflow into the past.
const longestHold = math.MaxInt64 / 2

// want is what the machine is asked for.
func (c *Client) want(name string, permits, limit int32) (claims.Want, error) {
	k, o := c.core, &c.lock
	ttl := orDefault(o.TTL, k.opts.TTL)
	if o.TTL != 0 {
		if err := k.checkTTL(ttl); err != nil {
			return claims.Want{}, err
		}
	}
	switch {
	case o.Wait < 0:
		return claims.Want{}, fmt.Errorf("LockOptions.Wait %v is negative: call TryLock, TryRLock or TryAcquire to ask once", o.Wait)
	case o.MinHold < 0 || o.MaxHold < 0:
		return claims.Want{}, fmt.Errorf("MinHold %v or MaxHold %v is negative: leave out what is not wanted", o.MinHold, o.MaxHold)
	case o.MaxHold > 0 && o.MaxHold < o.MinHold:
		return claims.Want{}, fmt.Errorf("MaxHold %v ends the lease before MinHold %v has passed: ask for no less", o.MaxHold, o.MinHold)
	}
	return claims.Want{Name: name, Permits: permits, Limit: limit, TTL: ttl,
		MinHold: min(o.MinHold, longestHold), MaxHold: min(o.MaxHold, longestHold),
		NoRenew: o.NoRenew, Detached: o.Detached, Alone: o.NoLocalHandoff, Reentrant: o.Reentrant}, nil
}

func (k *core) waiter(l *Lease, want claims.Want, o *LockOptions, outer *claims.Holding) *waiter {
	w, ok := k.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
		w.Tag = w
	}
	l.handle.Tag, l.handle.Outer = l, outer
	w.Want, w.Lease, w.Holds = want, &l.handle, door.Holds(l.asked)
	w.Ticket, w.Silent, w.Err = 0, false, nil
	w.lock, w.began, w.call, w.why, w.err, w.names = o, 0, 0, claims.OK, nil, nil
	return w
}

// asked is the context of the call.
func (w *waiter) asked() context.Context { return w.Lease.Tag.(*Lease).asked }

// answerLocked has the caller go on, with its lease or without.
func (w *waiter) answerLocked(o *claims.Output) {
	w.why, w.err = o.Reason, o.Err
	if o.Act == claims.Deliver {
		l := o.Lease.Tag.(*Lease)
		l.token = Token(o.Lease.Token)
		w.kind = EventHeld
		if o.HandedOff {
			w.kind = EventHandoff
		}
	}
	w.ready <- struct{}{} // capacity 1, sent once
}

// began notifies the Observer of a lease that begins. It runs in the goroutine of the
// call, like the other events of a call that waits, so they come in their order.
func (k *core) began(w *waiter, l *Lease) {
	if k.opts.Observer == nil {
		return
	}
	waited := time.Duration(0)
	if w.began > 0 {
		waited = max(0, l.handle.HeldAt-w.began)
	}
	k.opts.Observer(Event{Kind: w.kind, Name: l.name, Token: l.token, Permits: w.Permits, Limit: w.Limit,
		Call: w.call, Context: l.asked, Waited: waited})
}

// whySilent says that the engine has not answered, and what other calls failed with since
// it answered last. That is no error of this call: it is text only.
func (k *core) whySilent() error {
	k.mu.Lock()
	defer k.unlock()
	if down := k.machine.Down(); down != nil {
		return fmt.Errorf("%w, and another call failed: %v", errNoAnswer, down)
	}
	return errNoAnswer
}

// errNoAnswer is of an engine that has neither failed nor answered.
var errNoAnswer = errors.New("it has not answered yet")

// tooLate is why w's call ended with ctx: at its deadline, or that of Wait, it
// says who holds the name, unless the engine has not said so much.
func (k *core) tooLate(ctx context.Context, w *waiter) error {
	cause := context.Cause(ctx)
	timeUp := ctx.Err() == context.DeadlineExceeded
	silent := w.Err
	if silent == nil && timeUp && w.Silent {
		silent = k.whySilent()
	}
	var err error
	switch {
	case silent != nil:
		err = fmt.Errorf("%w: %w", ErrUnavailable, silent)
	case timeUp:
		err = k.heldError(ctx, w)
	default:
		return cause
	}
	if cause != errWaited {
		err = fmt.Errorf("%w (%w)", err, cause) // the context's own
	}
	return err
}

// gaveUp makes the error of a caller that gets nothing.
func (k *core) gaveUp(op string, w *waiter, err error) error {
	err = wrap(op, w.Name, err)
	if k.opts.Observer != nil {
		k.opts.Observer(Event{Kind: EventGaveUp, Name: w.Name, Permits: w.Permits, Limit: w.Limit, Call: w.call, Context: w.asked(), Waited: k.waited(w), Err: err})
	}
	return err
}

// deadlocked makes the error of the victim of a cycle.
func (k *core) deadlocked(op string, w *waiter, cycle *DeadlockError) error {
	if k.opts.Observer != nil {
		k.opts.Observer(Event{Kind: EventDeadlock, Name: w.Name, Permits: w.Permits, Limit: w.Limit, Call: w.call, Context: w.asked(), Waited: k.waited(w), Err: cycle})
	}
	return k.gaveUp(op, w, cycle)
}

func (k *core) waited(w *waiter) time.Duration {
	if w.began == 0 {
		return 0
	}
	return k.now() - w.began
}

// sayBound is how much longer than its time a caller stays to learn who holds the
// name: enough for an engine that answers, and little where it does not.
const sayBound = 250 * time.Millisecond

// lookBound is how long a caller that was refused with time left asks who holds the name.
const lookBound = time.Second

// heldError says who holds the name, if the engine says so soon.
func (k *core) heldError(ctx context.Context, w *waiter) *HeldError {
	held := &HeldError{Name: w.Name, Waited: k.waited(w)}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(sayBound, cancel) })()
	queue, err := k.eng.Queue(look, w.Name)
	if err != nil {
		return held // that somebody holds it is known; who, is not
	}
	held.free = len(queue.Claims) == 0
	for _, c := range queue.Claims {
		if w.Ticket != 0 && c.Ticket == w.Ticket && !k.has(c.Ticket) {
			continue // this caller's own claim, which is being left, and may have got its turn
		}
		if c.State == engine.Held {
			held.By = append(held.By, c)
			held.Own = held.Own || c.Owner.Host == k.host && c.Owner.PID == k.pid && k.has(c.Ticket)
		} else if w.Ticket == 0 || c.Ticket < w.Ticket {
			held.Ahead++
		}
	}
	return held
}

// has reports whether this client holds the claim with a ticket. It looks at every claim,
// so ask it only of one that the owner's text says is this process's.
func (k *core) has(ticket uint64) bool {
	k.mu.Lock()
	defer k.unlock()
	return k.machine.Uses(ticket)
}

// ownCall is what a caller's own Join takes besides the claim: one piece of garbage, not
// two.
type ownCall struct {
	bounded bounded
	owner   engine.Owner
}

// ownCall is for the claim that is made for w. Its owner is what others see of that, with what
// its caller holds already. Holds that do not fit engine.MaxOwner are left out, the
// outermost first: people read the rest, and a search for deadlocks treats a
// missing edge as "not a deadlock".
func (k *core) ownCall(w *waiter) *ownCall {
	label := w.lock.Label
	if label == "" {
		label = k.opts.Label
	}
	call := &ownCall{owner: engine.Owner{Host: k.host, PID: k.pid, Label: label, Since: time.Now()}}
	o := &call.owner
	w.names = k.holds(w)
	o.Holds = w.names
	for len(o.Holds) > 0 && !o.Fits() {
		o.Holds = o.Holds[:len(o.Holds)-1]
	}
	return call
}

// holds is what w's caller holds, innermost first: what its context says, and what
// it says itself.
func (k *core) holds(w *waiter) []engine.Hold {
	const most = engine.MaxOwner / 32
	holds := w.Lease.Outer.Holds(k.machine, most)
	return append(holds, w.Holds[:min(len(w.Holds), most-len(holds))]...)
}
