package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Keys of figures that only some workloads have.
const (
	PerSecond = "requests/s" // on the wire
	PerProc   = "requests/s/process"
	Share     = "cpushare" // of one core
	Late      = "late"     // nanoseconds after the deadline
	Outage    = "outage"   // nanoseconds after the kill
	Weight    = "bytes"    // per lock held
	PerLease  = "requests/lease"
	Calls     = "calls"
)

// idleTTL outlasts an Idle load: not every competitor renews what it holds.
const idleTTL = 30 * time.Second

// Idle makes a workload of one holder and many who wait for it: what waiting
// costs while nothing happens.
func Idle(w Workload, procs, waiters int, window time.Duration) Workload {
	load := Load{Kind: Cycle, Names: 1, Goroutines: waiters / procs}
	w.Measure = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		held := s.At
		held.TTL = idleTTL
		holder, err := hold(ctx, s, p, held)
		if err != nil {
			return Sample{}, err
		}
		defer holder.Dismiss()
		traffic, err := s.Counted()
		if err != nil {
			return Sample{}, err
		}
		defer traffic.Close()
		at := held
		at.Addrs = traffic.At.Addrs
		var total map[string]int
		o, err := Measure(ctx, Run{
			Suite: s.Suite, Competitor: p, At: at, Procs: procs, Load: load, NoDrain: true,
			// The beginning of a wait is no part of its idleness.
			Warm: 1500 * time.Millisecond, Window: s.Scale.Window(window),
			Began: traffic.Forget, Ended: func() { total = traffic.Requests() },
		})
		if err != nil {
			return Sample{}, err
		}
		faults := o.Faults()
		delete(faults, "still waiting when cut off") // as they should
		if o.Granted > 0 {
			faults["obtained although held"] = o.Granted
		}
		sample := Sample{Faults: faults, Cause: o.Cause}
		rate := sample.traffic(total, o.Window.Seconds(), "")
		sample.Figures = map[string]float64{
			PerSecond: rate,
			PerProc:   rate / float64(procs),
			Share:     float64(o.CPU) / float64(o.Window),
		}
		return sample, nil
	}
	return w
}

// hold starts a process that takes the first name and keeps it.
func hold(ctx context.Context, s *Stage, p Competitor, at Endpoint) (*Fleet, error) {
	f, err := Launch(ctx, Run{Suite: s.Suite, Competitor: p, At: at, Procs: 1, Load: Load{Kind: Once, Names: 1}})
	if err != nil {
		return nil, err
	}
	if err = f.Go(); err == nil {
		err = f.awaitGrants(ctx, 1, 10*time.Second)
	}
	if err != nil {
		f.Dismiss()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) awaitGrants(ctx context.Context, n int64, bound time.Duration) error {
	end := time.Now().Add(bound)
	for {
		grants, _, _ := f.Grants()
		if grants >= n {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d locks were obtained within %v", grants, n, bound)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
}

// Killed makes a workload in which the holder is killed with SIGKILL while
// another process waits.
func Killed(w Workload, ttl time.Duration) Workload {
	w.Measure = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		at := s.At
		at.TTL = ttl
		observer, err := p.Open(ctx, at)
		if err != nil {
			return Sample{}, err
		}
		defer observer.Close()
		look, ok := observer.(Remainer)
		if !ok {
			return Sample{}, errors.New("cannot tell how long a lock still stands")
		}
		holder, err := hold(ctx, s, p, at)
		if err != nil {
			return Sample{}, err
		}
		defer holder.Dismiss()
		waiter, err := Launch(ctx, Run{Suite: s.Suite, Competitor: p, At: at, Procs: 1, Load: Load{Kind: Once, Names: 1}})
		if err != nil {
			return Sample{}, err
		}
		defer waiter.Dismiss()
		if err := waiter.Go(); err != nil {
			return Sample{}, err
		}
		time.Sleep(500 * time.Millisecond) // until the waiter is in line

		killed := holder.Clock.Now()
		if err := holder.Kill(0); err != nil {
			return Sample{}, err
		}
		left, err := look.Remaining(ctx, w.name())
		if err != nil {
			return Sample{}, fmt.Errorf("remaining: %w", err)
		}
		deadline := holder.Clock.Now() + int64(left)
		if err := waiter.awaitGrants(ctx, 1, 5*ttl+10*time.Second); err != nil {
			return Sample{Faults: map[string]int64{"never taken over": 1}, Cause: err.Error()}, nil
		}
		waiter.Window(0, 0)
		results, _ := waiter.Results()
		if len(results) == 0 || len(results[0].Grants) == 0 {
			return Sample{}, errors.New("the waiter did not say when it held")
		}
		granted := results[0].Grants[0]
		faults := map[string]int64{}
		if granted < deadline-int64(5*time.Millisecond) { // PTTL is in whole milliseconds
			faults["granted before the deadline"] = 1
		}
		return Sample{Faults: faults, Figures: map[string]float64{
			Late: float64(granted - deadline), Outage: float64(granted - killed),
		}}, nil
	}
	return w
}

func (Workload) name() string { return Load{Names: 1}.names()[0] }

// Keeping makes a workload in which one client holds many locks that it must
// renew. The window should be a multiple of everybody's renewal interval.
func IdleLoad(w Workload, locks int, ttl, window time.Duration) Workload {
	w.Measure = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		at := s.At
		at.TTL, at.Count = ttl, true
		var total map[string]int
		run := Run{
			Suite: s.Suite, Competitor: p, At: at, Procs: 1, Load: Load{Kind: IdleTimeout, Pairs: locks},
			Warm: 500 * time.Millisecond, Window: window,
		}
		if s.Counted != nil {
			traffic, err := s.Counted()
			if err != nil {
				return Sample{}, err
			}
			defer traffic.Close()
			run.At.Addrs = traffic.At.Addrs
			run.Began, run.Ended = traffic.Forget, func() { total = traffic.Requests() }
		}
		o, err := Measure(ctx, run)
		if err != nil {
			return Sample{}, err
		}
		sample := Sample{Faults: o.Faults(), Cause: o.Cause, Figures: map[string]float64{
			Weight: o.Bytes,
			Share:  float64(o.CPU) / float64(o.Window),
		}}
		if s.Counted != nil {
			rate := sample.traffic(total, o.Window.Seconds(), "")
			sample.Figures[PerSecond] = rate
			sample.Figures[PerLease] = rate / float64(locks) * ttl.Seconds()
		}
		if n, ok := o.Calls["Renew"]; ok {
			sample.Figures[Calls] = float64(n)
		}
		return sample, nil
	}
	return w
}
