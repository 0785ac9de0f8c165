package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/internal/deadlock"
)

const (
	// deadlockAfter is Options.DeadlockAfter where it is zero.
	deadlockAfter = time.Second

	// minDeadlockAfter bounds how often somebody who waits long reads.
	minDeadlockAfter = 10 * time.Millisecond
)

// DeadlockError is the ErrDeadlock of one caller, with the whole cycle.
type DeadlockError struct {
	// Cycle is the callers, each of whom waits for the next one, and the last for the
	// first. The first is the caller that gets this error.
	Cycle []DeadlockStep
}

// DeadlockStep is one caller of a cycle. It waits for the next one.
type DeadlockStep struct {
	Claim  engine.Claim // the claim that waits: Name, Ticket, Owner with Since and Holds
	Behind uint64       // the ticket of the next caller's claim, in the queue of Claim.Name
}

// Error returns the cycle in words, from this caller around to it.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	for i, s := range e.Cycle {
		sep := ", who waits for"
		if i == 0 {
			sep = ": this caller waits for"
		}
		who := "this caller"
		if next := i + 1; next < len(e.Cycle) {
			who = fmt.Sprintf("%q", e.Cycle[next].Claim.Owner.String())
		}
		fmt.Fprintf(&b, "%s %q with ticket %d", sep, s.Claim.Name, s.Claim.Ticket)
		if since := s.Claim.Owner.Since; !since.IsZero() {
			fmt.Fprintf(&b, " (asked for at %s)", since.Format(time.RFC3339))
		}
		fmt.Fprintf(&b, " behind ticket %d of %s", s.Behind, who)
	}
	b.WriteString("; unlock what you hold and begin again")
	return b.String()
}

// Is makes a DeadlockError an ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// detector searches for deadlocks on behalf of a caller that waits while it holds
// something: see package deadlock. It begins when the caller has waited for one period;
// before that it costs a timer.
type detector struct {
	core  *core
	w     *waiter      // under core.mu; nil once the caller goes on, which may use it again
	cores []*core      // with whose engines it reads
	found chan verdict // capacity 1
}

// verdict ends the waiting of a caller.
type verdict struct {
	deadlock *DeadlockError
	stale    bool // its claim names what it does not hold any more
}

// await waits until w is answered. false: it was not, and is to give up, because
// ctx ended or because of the verdict.
func (k *core) await(ctx context.Context, w *waiter) (v verdict, answered bool) {
	if w.Lease.Outer == nil && len(w.Holds) == 0 || k.opts.DeadlockAfter < 0 || !k.grants.SeesWaiters || len(w.ready) > 0 {
		select {
		case <-w.ready:
			return v, true
		case <-ctx.Done():
			return v, false
		}
	}
	timer := time.NewTimer(k.opts.DeadlockAfter)
	defer timer.Stop()
	due := timer.C
	var found <-chan verdict
	for {
		select {
		case <-w.ready:
			return v, true
		case <-ctx.Done():
			return v, false
		case v = <-found:
			return v, false
		case <-due: // once
			look, cancel := context.WithCancel(context.WithoutCancel(ctx))
			o := &detector{core: k, w: w, cores: k.others(w), found: make(chan verdict, 1)}
			defer o.end(cancel)
			found = o.found
			k.mu.Lock()
			k.spawnLocked(func() { o.run(look) })
			k.unlock()
		}
	}
}

func (o *detector) end(cancel context.CancelFunc) {
	cancel()
	o.core.mu.Lock()
	o.w = nil
	o.core.unlock()
}

// others returns the clients whose engines are to be read: this one first, then those
// of the leases in w's context. Claims of other callers may wait there for w's.
func (k *core) others(w *waiter) []*core {
	cores := []*core{k}
	for h := w.Lease.Outer; h != nil; h = h.Outer {
		other := h.Lease.Tag.(*Lease).core
		if other.grants.SeesWaiters && !slices.Contains(cores, other) {
			cores = append(cores, other)
		}
	}
	return cores
}

// run searches until it finds something or ctx ends, every two periods. The caller that
// closes a cycle has its youngest claim and searches after one period.
func (o *detector) run(ctx context.Context) {
	for period := o.core.opts.DeadlockAfter; ; {
		if v := o.look(ctx); v != (verdict{}) {
			o.found <- v // capacity 1, sent once
			return
		}
		if !pause(ctx, 2*period) {
			return
		}
	}
}

// pause reports false if ctx ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look goes through two passes. Between them is a quarter of a period, for those
// who are about to go on or to give up anyway.
func (o *detector) look(ctx context.Context) (v verdict) {
	k := o.core
	k.mu.Lock()
	w := o.w
	if w == nil {
		k.unlock()
		return v
	}
	ticket, waits := k.machine.Place(&w.Caller)
	name, holds := w.Name, len(w.names) > 0
	v.stale = waits && !slices.Equal(k.holds(w), w.names)
	k.unlock()
	if !waits || !holds || v.stale {
		return v
	}
	s := deadlock.New(len(o.cores), deadlock.Key{Name: name}, ticket)
	if !o.pass(ctx, s) || s.Verdict() != deadlock.Victim || !pause(ctx, k.opts.DeadlockAfter/4) {
		return v
	}
	if s = s.Again(); !o.pass(ctx, s) || s.Verdict() != deadlock.Victim {
		return v
	}
	v.deadlock = &DeadlockError{}
	for _, step := range s.Cycle() {
		v.deadlock.Cycle = append(v.deadlock.Cycle, DeadlockStep(step))
	}
	return v
}

// pass reads the queues that s asks for. It reports false if one could not be read,
// since nothing is learned then, and if s needs no more of them.
func (o *detector) pass(ctx context.Context, s *deadlock.Search) bool {
	ctx, cancel := context.WithTimeout(ctx, releaseBound)
	defer cancel()
	for keys := s.Next(); len(keys) > 0; keys = s.Next() {
		for _, key := range keys {
			l, err := o.cores[key.Engine].eng.Queue(ctx, key.Name)
			if key.Engine > 0 && errors.Is(err, engine.ErrClosed) {
				// Somebody closed the client of an outer lease, for good. What was not read
				// keeps nobody waiting, so at worst a deadlock is not seen.
				l, err = engine.Queue{}, nil
			}
			if err != nil {
				return false
			}
			s.Read(key, l)
		}
		if s.Hopeless() {
			return false
		}
	}
	return true
}
