package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// end is how a request for a lock ends.
type end int

const (
	endFailed  end = iota // the engine did not answer, or refused
	endHeld               // proven
	endWaiting            // the slice is over, the place stays
	endBusy               // the wait is over, the place is given up
	endLost               // the claim ended while it waited
	endGone               // the caller went
)

type outcome struct {
	end    end
	claim  engine.Claim
	proven time.Duration // the start of the call that proved it
	err    error
}

// waiter is a request that waits.
type waiter struct {
	at    place
	woken chan struct{} // capacity 1
	older *waiter       // of the same claim; under hub.mu
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it looks already
	}
}

// Pauses of a waiting request.
const (
	pollNext   = time.Second     // a claim that may be the next, if its notification is lost
	pollOthers = 3 * time.Second // any other: it renews its place as often, see grace
	pauseError = 250 * time.Millisecond
)

// obtain asks for a lock, and waits for it as long as the request may.
//
// The claim lives for grace while it waits, and is renewed by each poll. So a caller that
// died blocks nobody for longer, and one that moves to another Server has time for it.
func (s *Server) obtain(ctx context.Context, a *ask) (o outcome) {
	who := callerOf(ctx)
	over, err := s.usage.claim(who.name, s.limits)
	if err != nil {
		return outcome{err: err}
	}
	defer over()
	w := &waiter{at: place{a.Name, a.ID}, woken: make(chan struct{}, 1)}
	gone := s.hub.wait(w) // before the claim is there: a notification may come before the answer
	defer gone()

	slice := a.wait > Slice
	ends := time.NewTimer(min(a.wait, Slice))
	defer ends.Stop()
	draining := s.draining
	if a.NoWait {
		draining = nil
	}
	for joined, asked := false, false; ; asked = true {
		start := boottime.Now()
		c, err := s.look(ctx, a, joined)
		switch {
		case errors.Is(err, engine.ErrRefused):
			if asked { // an answer that was lost may have been a place
				s.abandon(ctx, a)
			}
			return outcome{err: err}
		case ctx.Err() != nil:
			s.abandon(ctx, a)
			return outcome{end: endGone}
		case err == nil && c.State == engine.Held:
			return s.prolong(ctx, a, outcome{end: endHeld, claim: c, proven: start})
		case err == nil && c.State == engine.Gone && a.NoWait && !c.Revoked:
			return outcome{end: endBusy}
		case err == nil && c.State == engine.Gone:
			return outcome{end: endLost, claim: c}
		case err != nil && a.NoWait:
			s.abandon(ctx, a)
			return outcome{err: err}
		}
		joined = joined || err == nil
		pause := time.NewTimer(s.pause(c, err))
		select {
		case <-w.woken:
			pause.Stop()
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			s.abandon(ctx, a)
			return outcome{end: endGone}
		case <-draining:
			pause.Stop()
			return s.stay(ctx, a, joined)
		case <-ends.C:
			pause.Stop()
			if slice {
				return s.stay(ctx, a, joined)
			}
			if a.keyed {
				gone()
				return s.giveKeyUp(ctx, a, joined)
			}
			return s.giveUp(ctx, a, err)
		}
	}
}

// look asks what has become of the claim of a caller that still may have it. An engine without order forgets who waits, so it
// is asked for a place each time, as it is until it has answered once. A repeated Join finds
// the claim that the first one made.
func (s *Server) look(ctx context.Context, a *ask, joined bool) (engine.Claim, error) {
	if a.still != nil { // also if no Join was answered yet: the engine may have been away for long
		if err := a.still(); err != nil {
			return engine.Claim{}, err
		}
	}
	if joined && s.grants.Order != engine.OrderNone {
		return a.same(s.renew(ctx, engine.Renewal{Name: a.Name, ID: a.ID, Want: a.WaitTTL}))
	}
	// In a goroutine of its own: the engine needs a deep stack for a moment, and that of a
	// request that waits would keep it.
	answered := make(chan renewed, 1)
	go func() {
		ctx, cancel := s.bound(ctx)
		defer cancel()
		c, err := s.eng.Join(ctx, a.Request)
		answered <- renewed{c, err}
	}()
	answer := <-answered
	return a.same(answer.claim, answer.err)
}

// same refuses a claim that an earlier request with the key made for another kind of lock: an
// engine that finds an ID again does not compare. A claim that is Gone may say nothing.
func (a *ask) same(c engine.Claim, err error) (engine.Claim, error) {
	if err == nil && a.keyed && c.State != engine.Gone && (c.Permits != a.Permits || c.Limit != a.Limit) {
		return c, engine.Refuse("this Idempotency-Key has a claim of %q with %d of %d permits, and this request asks for %d of %d: choose a key of its own for each lock", a.Name, c.Permits, c.Limit, a.Permits, a.Limit)
	}
	return c, err
}

// pause is how long to wait for a notification before the next look, shorter by chance:
// many who came at once do not look at once for ever.
func (s *Server) pause(c engine.Claim, err error) time.Duration {
	d := pollOthers
	switch {
	case err != nil:
		d = pauseError
	case c.PollAfter > 0:
		d = min(max(c.PollAfter, 10*time.Millisecond), pollNext)
	case s.grants.Order == engine.OrderNone:
		d = pollNext
	}
	return d - rand.N(d/8)
}

// prolong gives a lock that is held the TTL that its caller asked for.
func (s *Server) prolong(ctx context.Context, a *ask, o outcome) outcome {
	if o.claim.TTL >= a.ttl {
		return o
	}
	start := boottime.Now()
	c, err := s.renew(ctx, engine.Renewal{Name: a.Name, ID: a.ID, Want: a.ttl})
	switch {
	case ctx.Err() != nil:
		s.abandon(ctx, a)
		return outcome{end: endGone}
	case err != nil:
		return o // what is proven is less
	case c.State != engine.Held:
		return outcome{end: endLost, claim: c}
	}
	return outcome{end: endHeld, claim: c, proven: start}
}

// stay ends a slice: the place stays for grace, in which the caller comes again.
func (s *Server) stay(ctx context.Context, a *ask, joined bool) outcome {
	start := boottime.Now()
	c, err := s.look(ctx, a, joined)
	switch {
	case ctx.Err() != nil:
		s.abandon(ctx, a)
		return outcome{end: endGone}
	case err != nil:
		return outcome{err: err}
	case c.State == engine.Held:
		return s.prolong(ctx, a, outcome{end: endHeld, claim: c, proven: start})
	case c.State == engine.Gone:
		return outcome{end: endLost, claim: c}
	}
	return outcome{end: endWaiting, claim: c}
}

// giveUp ends the wait. last is the error of the last look, if the engine is away.
func (s *Server) giveUp(ctx context.Context, a *ask, last error) outcome {
	s.leave(ctx, a)
	if last != nil {
		return outcome{err: last}
	}
	return outcome{end: endBusy}
}

// giveKeyUp ends the wait of one request with a key, which does not wait in the hub any more.
// Another one may have the same claim by that key, on any Server, and may have been told by now
// that it holds. So the claim is not left, which would end it in any state: Revoke removes one
// that waits, and only marks one that has become held, whose permits stay taken for as long as
// somebody trusts it. If another request waits for it here, the place is that one's: of two that
// end at once, the later one sees no other.
func (s *Server) giveKeyUp(ctx context.Context, a *ask, joined bool) outcome {
	start := boottime.Now()
	c, err := s.look(ctx, a, joined)
	switch {
	case ctx.Err() != nil:
		return outcome{end: endGone}
	case err != nil:
		return outcome{err: err} // the place ends by its TTL
	case c.State == engine.Held:
		return s.prolong(ctx, a, outcome{end: endHeld, claim: c, proven: start})
	case c.State == engine.Gone && c.Revoked:
		return outcome{end: endLost, claim: c}
	case c.State == engine.Waiting && s.grants.Order != engine.OrderNone && !s.hub.waits(place{a.Name, a.ID}): // without order there is no place
		bounded, cancel := s.afterwards(ctx)
		defer cancel()
		if err := s.eng.Revoke(bounded, a.Name, c.Ticket, false); err != nil && !errors.Is(err, engine.ErrNoClaim) {
			s.log.Warn("a place that nobody wants was not given back: it ends by its TTL", "name", a.Name, "error", err)
		}
	}
	return outcome{end: endBusy}
}

// abandon gives up the claim of a caller that went, unless it can come again for it.
func (s *Server) abandon(ctx context.Context, a *ask) {
	if !a.keyed {
		s.behind.Go(func() { s.leave(ctx, a) })
	}
}

// leave gives a claim up. If the engine does not answer, the claim ends by its TTL.
func (s *Server) leave(ctx context.Context, a *ask) {
	ctx, cancel := s.afterwards(ctx)
	defer cancel()
	if _, err := s.eng.Leave(ctx, []engine.Claim{{Name: a.Name, ID: a.ID}}); err != nil {
		s.log.Warn("a claim that nobody wants was not given back: it ends by its TTL", "name", a.Name, "error", err)
	}
}
