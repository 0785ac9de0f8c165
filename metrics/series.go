package metrics

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"leasehold"
)

// Reasons why a call gave up.
var gaveUpReasons = []string{"held", "unavailable", "canceled", "deadlock", "other"}

// gaveUpReason finds the reason of an EventGaveUp, which has the context of the call.
func gaveUpReason(e *leasehold.Event) int {
	err := e.Err
	switch {
	case errors.Is(err, leasehold.ErrDeadlock):
		return 3
	case errors.Is(err, leasehold.ErrUnavailable):
		return 1
	case errors.Is(err, leasehold.ErrHeld):
		return 0
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), endedWith(e.Context, err):
		return 2
	}
	return 4
}

// endedWith reports whether err says that ctx has ended. A call returns the cause of its
// context, which need not be a context.Canceled. A context that has ended is no reason by
// itself: the Client may have been closed first.
func endedWith(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return cause != nil && errors.Is(err, cause)
}

// Reasons why a lease was lost. That its Client was closed is a lease that its own
// program ended: it is not counted as a loss, for nobody should be woken by it.
var lostReasons = []string{"expired", "stopped", "deleted", "revoked", "max_hold", "not_renewed"}

const firstLoss = leasehold.LossExpired

// series are the numbers of one engine and one folded name.
type series struct {
	wait    [2]histogram // held, gave up
	hold    histogram
	granted [2]atomic.Uint64 // claim, handoff
	gaveUp  []atomic.Uint64  // by gaveUpReasons
	lost    []atomic.Uint64  // by lostReasons
	revoked atomic.Uint64
	victims atomic.Uint64
}

func newSeries(bounds []time.Duration) *series {
	s := &series{gaveUp: make([]atomic.Uint64, len(gaveUpReasons)), lost: make([]atomic.Uint64, len(lostReasons))}
	for _, h := range []*histogram{&s.wait[0], &s.wait[1], &s.hold} {
		h.bounds, h.counts = bounds, make([]atomic.Uint64, len(bounds)+1)
	}
	return s
}

func (s *series) count(e *leasehold.Event) {
	switch e.Kind {
	case leasehold.EventHeld, leasehold.EventHandoff:
		s.wait[0].add(e.Waited)
		s.granted[e.Kind-leasehold.EventHeld].Add(1)
	case leasehold.EventGaveUp:
		s.wait[1].add(e.Waited)
		s.gaveUp[gaveUpReason(e)].Add(1)
	case leasehold.EventReleased:
		s.hold.add(e.Held)
	case leasehold.EventLost:
		s.hold.add(e.Held)
		if i := int(e.Reason) - int(firstLoss); i >= 0 && i < len(s.lost) {
			s.lost[i].Add(1)
		}
	case leasehold.EventRevoke:
		s.revoked.Add(1)
	case leasehold.EventDeadlock:
		s.victims.Add(1)
	}
}

// histogram counts durations between bounds. It has no count of all: that is the sum of
// counts, so the two always agree.
type histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64    // ns
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Distribution is the value of a Histogram.
type Distribution struct {
	Bounds []time.Duration // the upper bounds, inclusive, of all counts but the last
	Counts []uint64        // durations between two bounds; not cumulative
	Count  uint64          // the sum of Counts
	Sum    time.Duration
}

func (h *histogram) distribution() *Distribution {
	d := &Distribution{Bounds: slices.Clone(h.bounds), Counts: make([]uint64, len(h.counts)), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		d.Counts[i] = h.counts[i].Load()
		d.Count += d.Counts[i]
	}
	return d
}
