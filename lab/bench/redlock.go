package main

import (
	"time"

	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
)

// Rows on several masters. The last two of the five are in turn themselves, behind
// a proxy that only forwards, behind one that takes its time, and nobody.
const (
	redsync5 = "redsync x5"

	ourRedlock     = "leasehold redlock"
	ourRedlockNear = "leasehold redlock, proxied"
	ourRedlockSlow = "leasehold redlock, slow"
	ourRedlockAway = "leasehold redlock, away"
	redsync5Slow   = "redsync x5, slow"
)

// awayBy is how much later a slow master hears.
const awayBy = 20 * time.Millisecond

// Where the addresses of a stage are: the masters, and other ways to the last two.
const (
	redisMasters = 5
	always       = redisMasters - 2
	nearFrom     = redisMasters
	slowFrom     = nearFrom + redisMasters - always
	awayFrom     = slowFrom + redisMasters - always
)

func oneMaster(addrs []string) []string   { return addrs[:1] }
func fiveMasters(addrs []string) []string { return addrs[:redisMasters] }

func lastTwoFrom(from int) competitors.Pick {
	return func(addrs []string) []string {
		return append(addrs[:always:always], addrs[from:from+redisMasters-always]...)
	}
}

func redlocks() []harness.Competitor {
	slow, away := ", two of five masters "+awayBy.String()+" away", ", two of five masters gone"
	return []harness.Competitor{
		competitors.Redlock(ourRedlock, "", fiveMasters),
		competitors.Redlock(ourRedlockNear, ", two of five masters behind a proxy that only forwards", lastTwoFrom(nearFrom)),
		competitors.Redlock(ourRedlockSlow, slow, lastTwoFrom(slowFrom)),
		competitors.Redlock(ourRedlockAway, away, lastTwoFrom(awayFrom)),
		competitors.Redsync(redsync5Slow, slow, lastTwoFrom(slowFrom)),
	}
}

// otherWays are the addresses after those of the masters, and what closes them.
func otherWays(masters []string) (addrs []string, close func(), err error) {
	var proxies []*servers.Proxy
	close = func() {
		for _, p := range proxies {
			p.Close()
		}
	}
	for _, delay := range []time.Duration{0, awayBy} {
		for _, master := range masters[always:] {
			p, err := servers.NewProxy(master)
			if err != nil {
				close()
				return nil, nil, err
			}
			p.Delay(delay)
			proxies, addrs = append(proxies, p), append(addrs, p.Addr)
		}
	}
	return append(addrs, "127.0.0.1:1", "127.0.0.1:2"), close, nil // nobody listens there
}

// onMasters is the pair on five masters, beside redsync, and what a minority that
// is slow or gone adds to it.
func onMasters(pair []harness.Column) harness.Workload {
	return harness.Cycling(harness.Workload{
		ID: "W1-masters", Title: "uncontended, one goroutine, five masters", Columns: pair, Main: harness.P50, Lower: true,
		Competitors: []string{ourRedlock, redsync5, ourRedlockNear, ourRedlockSlow, redsync5Slow, ourRedlockAway},
		How:         "As W1, on five masters. In some rows two of the masters are behind a proxy that only forwards (which shows the cost of a proxy), behind a proxy that delays everything by 20 ms, or away.",
	}, 1, harness.Load{}, 600*time.Millisecond, nil)
}

// redlockTargets are what redlock promises beside redsync on the same masters.
func redlockTargets() []harness.Target {
	ratio := func(id, ours, theirs string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			return r.Ratio(id, ours, harness.P50, id, theirs, harness.P50)
		}
	}
	return []harness.Target{
		{ID: "masters", What: "lock and unlock on five masters, p50", Want: "<= redsync", Most: 1, Of: ratio("W1-masters", ourRedlock, redsync5)},
		{ID: "masters-ahead", What: "lock and unlock on five masters, p50", Want: "<= 0.8 x redsync", Most: 0.8, Of: ratio("W1-masters", ourRedlock, redsync5)},
		{ID: "masters-names", What: "64 goroutines, own names, on five masters: pairs/s", Want: ">= 1.5 x redsync", Least: 1.5,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("W2", ourRedlock, harness.Rate, "W2", redsync5, harness.Rate)
			}},
		{ID: "masters-slow", What: "the same, two of the five 20 ms away", Want: "<= 1.1 x without the delay", Most: 1.1, Of: ratio("W1-masters", ourRedlockSlow, ourRedlockNear)},
		{ID: "masters-away", What: "the same, two of the five gone", Want: "<= 1.1 x with all", Most: 1.1, Of: ratio("W1-masters", ourRedlockAway, ourRedlock)},
		{ID: "masters-relay", What: "hand-over between 8 processes on five masters, relayed, p50", Want: "<= redsync / 5", Most: 0.2, Of: ratio("W3-relay-8", ourRedlock, redsync5)},
		{ID: "masters-batches", What: "10,000 leases on five masters: requests per lease and renewal", Want: "<= 0.05", Most: 0.05,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				s, ok := r.Figure("W7", ourRedlock, harness.PerLease)
				return harness.Stat{Median: s.Median / 3, Min: s.Min / 3, Max: s.Max / 3}, ok
			}},
	}
}
