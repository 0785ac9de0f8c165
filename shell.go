package leasehold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
	"leasehold/internal/claims"
	"leasehold/internal/door"
)

// core is what all views of one Client share: the shell around the machine
// that decides (package claims). It turns outputs into calls of the engine,
// answers into inputs, wakes callers and cancels contexts, and decides nothing.
// One mutex guards all below it; it is never held while calling the engine or
// the Observer.
type core struct {
	eng    *checked.Engine
	grants engine.Guarantees
	opts   Options
	now    func() time.Duration
	trace  func(door.Step) // nil: nobody wants to know
	host   string
	pid    int

	life     context.Context // ends when Close has left every claim
	end      context.CancelFunc
	joining  context.Context // ends when Close begins
	endJoins context.CancelFunc
	joins    sync.WaitGroup // Joins under way

	wg      sync.WaitGroup // every goroutine of this client
	unlocks sync.WaitGroup // Unlocks and Detaches that wait for the engine

	waiters sync.Pool     // of *waiter
	kick    chan struct{} // capacity 1: the keeper has something earlier to do

	mu      sync.Mutex
	machine *claims.Machine
	closed  bool
	ended   chan struct{} // closed when Close has finished
	result  error         // of Close
	asleep  time.Duration // until when the keeper sleeps
	events  *[]Event      // to be observed once mu is free; nil: none
	batches sync.Pool     // of those, so that an event costs no memory

	waitingCalls uint64 // how many calls the Observer was told to wait

	probeFrom time.Duration // when LockAll may ask for all names at once again

	adopting map[engine.ID]bool // claims of which an Adopt is under way
	checks   checks
	after    aftermath
}

const (
	// releaseBound is the longest that Unlock waits for an engine.
	releaseBound = claims.ReleaseBound

	// closeBound is the longest that Close waits for an answer to one call that
	// gives up what is left, a thousand claims at a time; the engine's own Close
	// has a bound of its own. Less than releaseBound, since Close mostly follows
	// Unlocks that waited already.
	closeBound = 2 * time.Second
)

// work is the calls that a round of outputs asks for.
type work struct {
	join   *claims.Claim  // of the caller who entered
	call   *bounded       // of that
	first  []engine.Claim // to leave, for the caller who gave the input
	leaves []engine.Claim // to leave
	renews renewals
	joins  []*claims.Claim // that nobody's call is for
}

// carryOutLocked does what the machine asks for since the last time. Calls of
// the engine get goroutines of their own, what is held first, but for the Join of me
// and the Leaves that somebody waits for: those are returned.
func (k *core) carryOutLocked(me *waiter) work {
	todo := k.outputsLocked(me)
	if len(todo.renews.asked) > 0 {
		k.spawnLocked(func() { k.renew(todo.renews) })
	}
	if len(todo.leaves) > 0 {
		k.spawnLocked(func() { k.leave(k.life, todo.leaves) })
	}
	for _, cl := range todo.joins {
		k.spawnLocked(func() { k.join(k.life, new(bounded), k.now(), cl) })
	}
	k.wakeLocked()
	return todo
}

// outputsLocked does what needs no call, and returns the calls.
func (k *core) outputsLocked(me *waiter) (todo work) {
	outputs := k.machine.Outputs()
	for i := range outputs {
		o := &outputs[i]
		switch o.Act {
		case claims.Join:
			k.joinLocked(o, me, &todo)
		case claims.Renew:
			todo.renews.add(o)
		case claims.Leave:
			q := engine.Claim{Name: o.Claim.Name(), ID: o.Claim.ID()}
			if o.Lease != nil || o.Caller != nil {
				todo.first = append(todo.first, q)
			} else {
				todo.leaves = append(todo.leaves, q)
			}
		case claims.Deliver, claims.Fail:
			o.Caller.Tag.(*waiter).answerLocked(o)
		default:
			k.notifyLocked(o)
		}
	}
	clear(outputs) // they would keep what they name from the garbage collector
	return todo
}

func (k *core) joinLocked(o *claims.Output, me *waiter, todo *work) {
	k.joins.Add(1) // never once closed: Close waits for them
	cl := o.Claim
	if o.Caller != nil {
		w := o.Caller.Tag.(*waiter)
		call := k.ownCall(w)
		cl.Owner = &call.owner
		if w == me {
			todo.join, todo.call = cl, &call.bounded
			return
		}
	}
	todo.joins = append(todo.joins, cl)
}

// notifyLocked passes on what happened to a lease, or to the engine.
func (k *core) notifyLocked(o *claims.Output) {
	var l *Lease
	if o.Lease != nil {
		l = o.Lease.Tag.(*Lease)
	}
	switch o.Act {
	case claims.Lose:
		l.loseLocked(cause(o.Reason, o.Err))
	case claims.Contend:
		l.contendLocked()
	case claims.End:
		if l.lost != nil {
			l.endLocked(l.lost) // as its context said it
		} else {
			l.endLocked(cause(o.Reason, o.Err))
		}
	case claims.Extend:
		l.eventLocked(Event{Kind: EventRenewed, Held: k.now() - l.handle.HeldAt})
	case claims.Down:
		k.eventLocked(Event{Kind: EventEngineDown, Err: o.Err})
	case claims.Up:
		k.eventLocked(Event{Kind: EventEngineUp, Held: o.Want})
	}
}

// cause is a machine's reason as users see it.
func cause(why claims.Reason, err error) error {
	var c error
	switch why {
	case claims.OK:
		return nil
	case claims.Refused:
		return err
	case claims.Held:
		c = ErrHeld
	case claims.Own:
		c = ErrReentry
		if err == nil {
			return fmt.Errorf("%w; pass a context that does not come from the lease, or choose LockOptions.Reentrant", c)
		}
	case claims.Upgrade:
		c = ErrUpgrade
	case claims.Revoked:
		return &LostError{Reason: LossRevoked, Err: err}
	case claims.Unavailable:
		c = ErrUnavailable
	case claims.Closed:
		c = ErrClosed
	case claims.Expired:
		return &LostError{Reason: LossExpired, Err: err}
	case claims.NotRenewed:
		return &LostError{Reason: LossNotRenewed, Err: err}
	case claims.Stopped:
		return &LostError{Reason: LossStopped, Err: err}
	case claims.Deleted:
		return &LostError{Reason: LossDeleted, Err: err}
	case claims.MaxHold:
		return &LostError{Reason: LossMaxHold, Err: err}
	case claims.Unknown:
		c = ErrUnknown
	}
	if err != nil {
		c = fmt.Errorf("%w: %w", c, err)
	}
	return c
}

// unlock frees the mutex and then tells the Observer what happened under it.
func (k *core) unlock() {
	events := k.events
	k.events = nil
	k.mu.Unlock()
	if events == nil {
		return
	}
	for i := range *events {
		k.opts.Observer((*events)[i])
	}
	clear(*events) // they would keep contexts from the garbage collector
	if cap(*events) <= maxBatch {
		*events = (*events)[:0]
		k.batches.Put(events)
	}
}

// maxBatch is the most room for events that is kept for the next ones.
const maxBatch = 64

func (k *core) eventLocked(e Event) {
	if k.opts.Observer == nil {
		return
	}
	if k.events == nil {
		var kept bool
		if k.events, kept = k.batches.Get().(*[]Event); !kept {
			k.events = new([]Event)
		}
	}
	*k.events = append(*k.events, e)
}

func (k *core) stepLocked(s claims.Step) {
	k.trace(door.Step{Name: s.Name, Ticket: s.Ticket, Text: s.Text})
}

// spawnLocked starts a goroutine of this client, unless it is closing: then
// nothing new may begin, and Close has collected what there was.
func (k *core) spawnLocked(f func()) {
	if !k.closed {
		k.wg.Go(f)
	}
}
