// Package tick is what the hosts that run jobs at certain times have in common: of all
// processes that run the same job, one runs it at each tick.
//
// # The rule
//
// The one that begins the job holds the name for nine tenths of the time between two ticks,
// even if the job takes a moment (leasehold.LockOptions.MinHold). So another process whose
// clock is behind, or whose ticks are shifted, finds the name held. The last tenth is for the
// next tick: its process may be a little early compared with the engine.
//
// A process that began late by more than that would refuse its own next tick. So it waits for
// the rest of its own hold, and a moment longer if it has not given the name back by then. It
// waits only for that: to wait for another's would let each of several shifted processes
// begin a little earlier than the one before it.
package tick

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"leasehold"
	"leasehold/engine"
)

// Shortest is the least time between two ticks.
const Shortest = 100 * time.Millisecond

// Options are the choices of Ticks.
type Options struct {
	Every time.Duration // the least time between two ticks of one process
	TTL   time.Duration // default: that of the Client
	Label string        // default: that of the Client
	Log   *slog.Logger  // of Run; by default events are dropped
}

// Ticks takes the names of jobs for one process. It is safe for concurrent use.
type Ticks struct {
	locks *leasehold.Client
	every time.Duration
	hold  time.Duration // of a name, at least
	log   *slog.Logger

	mu    sync.Mutex
	own   map[string]time.Time // until when this process's last hold of a name lasts at least
	clean int                  // at how many names of own those go that have no effect any more
}

// New returns an error for options out of their bounds.
func New(locks *leasehold.Client, o Options) (*Ticks, error) {
	if locks == nil {
		return nil, errors.New("there is no client: make one with leasehold.New")
	}
	if o.Every < Shortest {
		return nil, fmt.Errorf("the option Every is %v: give the least time between two ticks, %v or more", o.Every, Shortest)
	}
	if o.TTL != 0 {
		if err := locks.Guarantees().CheckTTL(o.TTL); err != nil {
			return nil, err
		}
	}
	hold := o.Every - o.Every/10
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	own := locks.LockOptions() // With replaces them all
	return &Ticks{
		locks: locks.With(leasehold.LockOptions{TTL: cmp.Or(o.TTL, own.TTL), MinHold: hold, Label: cmp.Or(o.Label, own.Label)}),
		every: o.Every,
		hold:  hold,
		log:   o.Log,
		own:   map[string]time.Time{},
	}, nil
}

// Take takes the name for one tick, and returns leasehold.ErrHeld if another process has
// taken it. Its other errors are those of leasehold.Client.Lock.
func (t *Ticks) Take(ctx context.Context, name string) (*leasehold.Lease, error) {
	if err := engine.CheckName(name); err != nil {
		return nil, err
	}
	lease, err := t.locks.TryLock(ctx, name)
	if wait := t.wait(name); errors.Is(err, leasehold.ErrHeld) && wait > 0 {
		o := t.locks.LockOptions()
		o.Wait = wait
		lease, err = t.locks.With(o).Lock(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.own) >= t.clean { // names may be those of jobs that run once
		maps.DeleteFunc(t.own, func(_ string, until time.Time) bool { return time.Until(until) < -t.every/2 })
		t.clean = 2*len(t.own) + 64
	}
	t.own[name] = time.Now().Add(t.hold)
	return lease, nil
}

// Run takes the name and calls fn, whose context ends with ctx or with the lease. It is for
// hosts that know no errors: it logs what went wrong, and at Debug that another process runs.
// It warns of a name that this process ran a moment ago, and does not run again.
func (t *Ticks) Run(ctx context.Context, name string, fn func(ctx context.Context, token leasehold.Token) error) {
	lease, err := t.Take(ctx, name)
	switch {
	case errors.Is(err, leasehold.ErrHeld):
		if t.ran(name) { // the host repeats a job that failed, and takes this for a success
			t.log.Warn("not run: this process ran it less than half a tick ago", "name", name)
			return
		}
		t.log.Debug("the tick is another process's", "name", name)
		return
	case err != nil:
		t.log.Error("the tick was not run", "name", name, "error", err)
		return
	}
	// Also if fn panics: the host may catch that, and the lease would be renewed for ever.
	defer func() {
		if err := lease.Unlock(); err != nil {
			t.log.Error("the lock was lost or not given back", "name", name, "error", err)
		}
	}()
	ctx, cancel := lease.Bind(ctx)
	defer cancel()
	if err := fn(ctx, lease.Token()); err != nil {
		t.log.Error("the job failed", "name", name, "error", err)
	}
}

// wait is for how long Take waits for the end of this process's own hold of the name: 0 if
// that is not what it has to wait for. At most half of the time between two ticks counts:
// after more the tick is over.
func (t *Ticks) wait(name string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := time.Until(t.own[name])
	switch late := t.every / 10; { // the engine may end the hold later than this process believes
	case rest > t.every/2:
		return 0
	case rest > 0:
		return rest + late
	case rest > -t.every/2:
		// A process that stood still at the end of its hold has perhaps not given the name
		// back yet, and the others found it held. If the holder is another one, that one
		// took the name after this hold, and holds it for longer than this waits. Only if that
		// one dies meanwhile does this process run the same tick.
		return min(late, time.Second)
	}
	return 0
}

// ran reports whether this process began the tick of a name that still goes on.
func (t *Ticks) ran(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.own[name]) > t.every/2
}

// Gap returns the least time between two of the next hundred ticks of a schedule, or 0 if it
// has fewer than two.
func Gap(next func(time.Time) time.Time, from time.Time) (least time.Duration) {
	at := next(from)
	for range 100 {
		after := next(at)
		if at.IsZero() || !after.After(at) {
			break
		}
		if gap := after.Sub(at); least == 0 || gap < least {
			least = gap
		}
		at = after
	}
	return least
}
