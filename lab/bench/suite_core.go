package main

import (
	"context"
	"os"
	"time"

	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
)

// coreSuite is the core and its two serverless engines against what the
// kernel can do at best.
func coreSuite() *harness.Suite {
	const us, mem, flockWrite, flock = harness.Us, "leasehold mem", "flock+write", "flock"
	ms := time.Millisecond
	calls := harness.Column{Key: harness.Requests, Head: "engine calls/pair"}
	f := &harness.Suite{
		Name:        "core",
		Title:       "The core, with nothing to install",
		Competitors: []harness.Competitor{competitors.FlockWrite(), competitors.Flock(), competitors.File(), competitors.Memory()},
		Start:       coreStage,
	}
	add := func(w harness.Workload) { f.Workloads = append(f.Workloads, w) }
	pair := []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColCPU, calls}
	handover := []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax, harness.ColChanges, harness.ColCPU, harness.ColFair, harness.ColNever}

	add(harness.Cycling(harness.Workload{
		ID: "pair", Title: "lock and unlock, one goroutine", Competitors: []string{flockWrite, us, mem}, Columns: pair, Main: harness.P50, Lower: true,
		How: "One goroutine, one name of its own, nobody else.",
	}, 1, harness.Load{}, 500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "keep", Title: "lock a kept claim again", Competitors: []string{us, mem}, Columns: pair, Main: harness.P50, Lower: true,
		How: "As above with Options.IdleTimeout: the claim stays with the process, and locking it again needs no request. The figures are of lock and unlock together.",
	}, 1, harness.Load{}, 300*ms, func(at *harness.Endpoint) { at.IdleTimeout = 10 * time.Second }))

	relay := "The releaser asks again only when the next client holds. The p50 and p99 are from the call of Unlock to the return of the next holder's Lock; held 2 ms."
	hold := harness.Load{Names: 1, Relay: true, HoldMin: 2 * ms, HoldMax: 2 * ms}
	add(harness.Cycling(harness.Workload{
		ID: "handover", Title: "hand-over between two processes", Competitors: []string{flock, us}, Columns: handover, Main: harness.P50, Lower: true,
		How: relay,
	}, 2, hold, 1000*ms, nil))
	hundred := hold
	hundred.Clients = 10
	add(harness.Cycling(harness.Workload{
		ID: "queue-2", Title: "a queue of 2 distinct clients", Competitors: []string{us}, Columns: handover, Main: harness.P50, Lower: true,
		How: relay + " Local handoff off.",
	}, 2, hold, 1000*ms, alone))
	add(harness.Cycling(harness.Workload{
		ID: "queue-100", Title: "a queue of 100 distinct clients in 10 processes", Competitors: []string{us}, Columns: handover, Main: harness.P50, Lower: true,
		How: "As above with 100 clients, 10 in each of 10 processes.",
	}, 10, hundred, 2000*ms, alone))
	add(harness.Cycling(harness.Workload{
		ID: "free", Title: "hand-over between 8 processes, free", Competitors: []string{flock, us}, Columns: handover, Main: harness.Rate,
		How: "Lock and unlock as fast as possible; only changes of owner count. With flock a releaser may have the lock again at once.",
	}, 8, harness.Load{Names: 1}, 800*ms, nil))

	add(handingOff(harness.Workload{
		ID: "local-handoff", Title: "100 goroutines of one process, one name", Competitors: []string{us, mem}, Main: harness.Rate,
		Columns: []harness.Column{{Key: harness.Rate, Head: "critical sections/s"}, {Key: harness.Spread, Head: "most/least served"}, harness.ColCPU, harness.ColNever},
		How:     "No goroutine reads the clock: at this speed that would be a good part of the time. The counter in shared memory is kept. One more run, which is not timed, notes every hold and searches them for overlaps.",
	}))
	add(harness.IdleLoad(harness.Workload{
		ID: "leases", Title: "10,000 leases held by one client, TTL 30 s", Competitors: []string{mem}, Main: harness.Share, Lower: true, SkipQuick: true,
		Columns: []harness.Column{{Key: harness.Weight, Head: "bytes/lease"}, {Key: harness.Calls, Head: "renew calls"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}},
		How:     "Every lease is renewed once in the 10 s that are measured. Memory is heap and stacks of client and engine together.",
	}, 10_000, 30*time.Second, 10*time.Second))
	add(validity())
	add(lockingAll())

	figure := func(id, competitor, key string, scale float64) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			s, ok := r.Figure(id, competitor, key)
			return harness.Stat{Median: s.Median * scale, Min: s.Min * scale, Max: s.Max * scale}, ok
		}
	}
	ratio := func(id, otherID, other string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			return r.Ratio(id, us, harness.P50, otherID, other, harness.P50)
		}
	}
	f.Targets = []harness.Target{
		{ID: "pair", What: "filelock lock and unlock, one goroutine, p50", Want: "<= 4 x open, flock, write, unlock, close", Most: 4, Of: ratio("pair", "pair", flockWrite)},
		{ID: "two-calls", What: "engine calls of an uncontended lock and unlock", Want: "exactly 2", Exact: true, Most: 2, Least: 2, Of: figure("pair", mem, harness.Requests, 1)},
		{ID: "handover", What: "filelock hand-over between two processes, p50", Want: "<= 3 x a blocking flock", Most: 3, Of: ratio("handover", "handover", flock)},
		{ID: "handover-time", What: "filelock hand-over between two processes, p50 (µs)", Want: "<= 150", Most: 150, Of: figure("handover", us, harness.P50, 1e-3)},
		{ID: "queue", What: "filelock hand-over in a queue of 100 clients, p50", Want: "<= 2 x that in a queue of 2", Most: 2, Of: ratio("queue-100", "queue-2", us)},
		{ID: "local-handoff-file", What: "local handoff, 100 goroutines, filelock: sections/s", Want: ">= 1,000,000", Least: 1e6, Of: figure("local-handoff", us, harness.Rate, 1)},
		{ID: "local-handoff-mem", What: "local handoff, 100 goroutines, memlock: sections/s", Want: ">= 1,000,000", Least: 1e6, Of: figure("local-handoff", mem, harness.Rate, 1)},
		{ID: "local-handoff-fair-file", What: "local handoff, most by least served, filelock", Want: "<= 2", Most: 2, Of: figure("local-handoff", us, harness.Spread, 1)},
		{ID: "local-handoff-fair-mem", What: "local handoff, most by least served, memlock", Want: "<= 2", Most: 2, Of: figure("local-handoff", mem, harness.Spread, 1)},
		{ID: "lease-bytes", What: "10,000 leases, memlock: bytes each", Want: "< 1,024", Most: 1023, Of: figure("leases", mem, harness.Weight, 1)},
		{ID: "lease-cpu", What: "10,000 leases, memlock: share of a core (%)", Want: "< 3", Most: 3, Of: figure("leases", mem, harness.Share, 100)},
		{ID: "lease-calls", What: "10,000 leases, memlock: renew calls per lease renewed", Want: "batched: <= 0.01", Most: 0.01, Exact: true, Of: figure("leases", mem, harness.Calls, 1e-4)},
		{ID: "keep", What: "locking a kept claim again, lock and unlock, p50 (µs)", Want: "<= 1", Most: 1, Of: figure("keep", us, harness.P50, 1e-3)},
		{ID: "keep-calls", What: "engine calls per lock of a kept claim", Want: "none (one pair to begin with)", Exact: true, Most: 0.05, Of: figure("keep", us, harness.Requests, 1)},
		{ID: "lock-all", What: "LockAll of 10 free names, filelock", Want: "<= 10 x one Lock", Most: 10, Of: figure("lockall", us, perLock, 1)},
		{ID: "valid", What: "Lease.Valid (µs)", Want: "< 1", Most: 1, Of: figure("valid", mem, harness.P50, 1e-3)},
		{ID: "valid-allocs", What: "Lease.Valid: allocations per call", Want: "none", Exact: true, Most: 0.0001, Of: figure("valid", mem, allocations, 1)},
	}
	return f
}

func alone(at *harness.Endpoint) { at.NoLocalHandoff = true }

// local handoff measures with clocks unread and then checks with them read.
func handingOff(w harness.Workload) harness.Workload {
	load := harness.Load{Names: 1, Goroutines: 100}
	checked := harness.Cycling(w, 1, load, 200*time.Millisecond, nil)
	load.Light = true
	w = harness.Cycling(w, 1, load, 700*time.Millisecond, nil)
	w.Count = func(ctx context.Context, s *harness.Stage, p harness.Competitor) (harness.Sample, error) {
		sample, err := checked.Measure(ctx, s, p)
		return harness.Sample{Faults: sample.Faults, Cause: sample.Cause}, err
	}
	return w
}

func coreStage(context.Context) (*harness.Stage, error) {
	root, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	s := &harness.Stage{Servers: []string{"no server"}, Close: func() { os.RemoveAll(root) }}
	s.Reset = func(context.Context) error {
		// A directory of its own for every measurement: nothing is inherited.
		s.At.Dir, err = os.MkdirTemp(root, "")
		return err
	}
	return s, nil
}
