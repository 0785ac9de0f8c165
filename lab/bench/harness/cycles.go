package harness

import (
	"cmp"
	"context"
	"time"
)

// warm is how long a load runs before its window, and warmEach, or what the load says
// of its clients, is added for each client where there are many: the first joins of 500
// take a second or two, and are no part of what a hand-over costs.
const (
	warm     = 200 * time.Millisecond
	warmEach = 4 * time.Millisecond
)

// Cycling makes a workload of a load that locks and unlocks again and again.
func Cycling(w Workload, procs int, load Load, window time.Duration, at func(*Endpoint)) Workload {
	load.Kind = Cycle
	run := func(s *Stage, p Competitor) Run {
		r := Run{Suite: s.Suite, Competitor: p, At: s.At, Procs: procs, Load: load, Warm: warm + cmp.Or(load.Settle, warmEach)*time.Duration(procs*load.Clients), Window: s.Scale.Window(window)}
		if at != nil {
			at(&r.At)
		}
		return r
	}
	w.Measure = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		r := run(s, p)
		var before, after time.Duration
		if s.ServerCPU != nil {
			// An error leaves the figure at nothing; the measurement stands.
			r.Began = func() { before, _ = s.ServerCPU() }
			r.Ended = func() { after, _ = s.ServerCPU() }
		}
		o, err := Measure(ctx, r)
		if err != nil {
			return Sample{}, err
		}
		sample := o.Sample(load)
		if after > before && o.Granted > 0 {
			sample.Figures[Server] = float64(after-before) / float64(o.Granted)
		}
		if load.Names == 1 && !load.Light && load.ReadShare == 0 && load.Permits == 0 {
			sample.Figures[Rate] = float64(o.Changes) / o.Window.Seconds()
		}
		return sample, nil
	}
	w.Count = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		return s.count(ctx, run(s, p))
	}
	return w
}

// exactPairs is how many pairs every goroutine does where requests are counted
// exactly. It takes less time than it takes a lease to need a renewal.
const exactPairs = 100

// count runs a load through counting proxies, or where there is no wire past a
// counting engine. Where every goroutine has its own
// name it counts whole pairs, from before the first to after the last; else
// what passes during a window, divided by what was granted during it.
func (s *Stage) count(ctx context.Context, r Run) (Sample, error) {
	traffic := &Traffic{At: r.At, Requests: func() map[string]int { return nil }, Forget: func() {}, Close: func() {}}
	if s.Counted != nil {
		var err error
		if traffic, err = s.Counted(); err != nil {
			return Sample{}, err
		}
	}
	defer traffic.Close()
	r.At.Addrs, r.At.Count = traffic.At.Addrs, true
	var total map[string]int
	exact := r.Load.Names == 0
	if exact {
		r.Load.Pairs = exactPairs
		r.Window = startBound
		r.Ready = traffic.Forget
	} else {
		r.Began = traffic.Forget
	}
	r.Ended = func() { total = traffic.Requests() }
	o, err := Measure(ctx, r)
	if err != nil {
		return Sample{}, err
	}
	pairs := float64(o.Granted)
	if exact {
		pairs = float64(o.Pairs)
	}
	sample := Sample{Faults: o.Faults(), Cause: o.Cause, Figures: map[string]float64{}}
	if n, ok := o.Calls["Renew"]; ok {
		sample.Figures[Renews] = float64(n) / pairs
	}
	switch {
	case s.Counted != nil:
		sample.Figures[Requests] = sample.traffic(total, pairs, s.keepalive(r.Competitor))
	case exact && len(o.Calls) > 0: // no wire: the engine's calls are the requests
		var n int64
		for _, calls := range o.Calls {
			n += calls
		}
		sample.Figures[Requests] = float64(n) / pairs
	}
	return sample, nil
}

func (s *Stage) keepalive(p Competitor) string {
	if p.Name == s.Keepalive {
		return ""
	}
	return s.Keepalive
}

// wire notifications requests by command per unit of something, and returns their sum
// without one of them.
func (s *Sample) traffic(requests map[string]int, units float64, without string) float64 {
	s.Traffic = map[string]float64{}
	total := 0
	for command, n := range requests {
		s.Traffic[command] = float64(n) / units
		if command != without {
			total += n
		}
	}
	return float64(total) / units
}
