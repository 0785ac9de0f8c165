package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
)

// redisSuite is everything that locks on Redis.
func redisSuite() *harness.Suite {
	const (
		us, ping, setnx, blpop = harness.Us, "PING", "SET NX", "BLPOP"
		redsync                = "redsync"
		redislock, rueidislock = "redislock", "rueidislock"
	)
	locks := []string{us, rueidislock, redislock, redsync, redsync5}
	with := func(baselines ...string) []string { return append(baselines, locks...) }
	// Five masters are shown where they make a difference of their own.
	single := func(baselines ...string) []string { return append(baselines, us, rueidislock, redislock, redsync) }
	pair := []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests}
	handover := []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax, harness.ColChanges, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever}
	ms := time.Millisecond

	f := &harness.Suite{
		Name:  "redis",
		Title: "Redis, one server",
		Competitors: []harness.Competitor{
			competitors.Ping(), competitors.SetNX(), competitors.Token(),
			competitors.Redis(), competitors.Rueidislock(), competitors.Redislock(), competitors.Redsync(redsync, "", oneMaster), competitors.Redsync(redsync5, "", fiveMasters), competitors.Redisson(),
		},
		Start: redisStage,
	}
	f.Competitors = append(f.Competitors, redissons()...)
	f.Competitors = append(f.Competitors, redlocks()...)
	add := func(w harness.Workload) { f.Workloads = append(f.Workloads, w) }

	java := redissonLibrary()
	add(java.alsoJava(harness.Cycling(harness.Workload{
		ID: "W1", Title: "uncontended, one goroutine", Competitors: append(with(ping, setnx), ourRLock, rlock, rfairlock), Columns: pair, Main: harness.P50, Lower: true,
		How: "One goroutine locks and unlocks a name of its own. The p50 and p99 are of the whole pair. Requests are counted exactly, over 100 pairs.",
	}, 1, harness.Load{}, 600*ms, nil)))
	add(onMasters(pair))
	add(harness.Cycling(harness.Workload{
		ID: "W2", Title: "uncontended, 64 goroutines of one process", Competitors: append(with(setnx), ourRedlock), Columns: pair, Main: harness.Rate,
		How: "64 goroutines of one process and one client, each with a name of its own.",
	}, 1, harness.Load{Goroutines: 64}, 1000*ms, nil))

	relay := func(id string, procs int, from, to, window time.Duration, held string) {
		who := single(blpop)
		if id == "W3-relay-8" {
			who = append(with(blpop), ourRedlock)
		}
		add(harness.Cycling(harness.Workload{
			ID: id, Title: fmt.Sprintf("hand-over between %d processes, relayed, held %s", procs, held),
			Competitors: who, Columns: handover, Main: harness.P50, Lower: true, SkipQuick: to > 50*ms || procs < 8,
			How: "The releaser asks again only when the next client holds, so only a client that was blocked takes the lock. The p50 and p99 are from the call of Unlock to the return of the next holder's Lock.",
		}, procs, harness.Load{Names: 1, Relay: true, HoldMin: from, HoldMax: to}, window, nil))
	}
	relay("W3-relay-8", 8, 2*ms, 2*ms, 1200*ms, "2 ms")
	relay("W3-relay-2", 2, 2*ms, 2*ms, 1000*ms, "2 ms")
	relay("W3-long-8", 8, 100*ms, 300*ms, 2500*ms, "100 to 300 ms")
	free := func(id string, procs int) {
		who := append(with(blpop), ourRLock)
		if procs < 8 {
			who = single(blpop)
		}
		add(harness.Cycling(harness.Workload{
			ID: id, Title: fmt.Sprintf("hand-over between %d processes, free", procs),
			Competitors: who, Columns: handover, Main: harness.Rate, SkipQuick: procs < 8,
			How: "Lock and unlock as fast as possible; a releaser may have the lock again at once, but only changes of owner count.",
		}, procs, harness.Load{Names: 1}, 1200*ms, nil))
	}
	free("W3-free-8", 8)
	free("W3-free-2", 2)
	add(java.handingOver("W3-redisson", []string{rlock, rfairlock, ourRLock, rlockToUs, usToRLock}))
	add(java.crowd("W3-redisson-8", 8, []string{rlock, ourRLock}))

	for _, n := range []int{8, 100, 500} {
		add(queueOf("W3", n, "requests", handover))
	}

	for _, n := range []int{10, 100, 500} {
		who := single(blpop)
		if n == 100 {
			who = with(blpop)
		}
		add(harness.Cycling(harness.Workload{
			ID: fmt.Sprintf("W4-%d", n), Title: fmt.Sprintf("%d goroutines of one process, one name", n),
			Competitors: who, Main: harness.Rate, SkipQuick: n != 100,
			Columns: []harness.Column{harness.ColChanges, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever},
			How:     "All goroutines share one client and compete for one name.",
		}, 1, harness.Load{Names: 1, Goroutines: n}, 800*ms, nil))
	}

	add(harness.Idle(harness.Workload{
		ID: "W5", Title: "one holder, 100 waiters in 4 processes, idle", Competitors: locks, Main: harness.PerSecond, Lower: true, Once: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "requests/s"}, {Key: harness.PerProc, Head: "per process"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}},
		How:     "The cost of waiting while nothing happens: the requests of the waiting processes and their CPU, counted over 10 s. Every competitor's rhythm fits into that several times. The TTL is 30 s for all, since some never renew. The holder is a fifth process and not counted.",
	}, 4, 100, 10*time.Second))

	add(harness.Killed(harness.Workload{
		ID: "W6", Title: "the holder is killed, TTL 2 s", Competitors: append(with(), ourRedlock), Main: harness.Late, Lower: true,
		Columns: []harness.Column{{Key: harness.Late, Head: "after the deadline", Unit: harness.Nanoseconds}, {Key: harness.Outage, Head: "after the kill", Unit: harness.Nanoseconds}},
		How:     "The holder gets SIGKILL about half a second after it obtained the lock, while one process waits. The deadline is the time that the server says is left of the lock right after the kill.",
	}, 2*time.Second))

	add(harness.IdleLoad(harness.Workload{
		ID: "W7", Title: "10,000 leases held by one client, TTL 6 s", Competitors: []string{us, rueidislock, ourRedlock}, Main: harness.PerSecond, Lower: true, SkipQuick: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "requests/s"}, {Key: harness.PerLease, Head: "requests per lease and TTL"}, {Key: harness.Calls, Head: "renew calls"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}, {Key: harness.Weight, Head: "bytes/lease"}},
		How:     "Only competitors that renew by themselves take part. Memory is heap and stacks of the client, including its connection.",
	}, 10_000, 6*time.Second, 6*time.Second))

	add(harness.Cycling(harness.Workload{
		ID: "W8-zipf", Title: "1,000 names under Zipf contention", Competitors: locks, Main: harness.Rate,
		Columns: pair,
		How:     "8 goroutines in each of 4 processes draw names (Zipf, s = 1.1). The p50 and p99 are of the wait for the lock.",
	}, 4, harness.Load{Names: 1000, Zipf: 1.1, Goroutines: 8}, 1000*ms, nil))
	modes := []harness.Column{{Key: harness.Rate, Head: "locks/s"}, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever}
	add(harness.Cycling(harness.Workload{
		ID: "W8-rw", Title: "read-write, 90 % readers", Competitors: []string{us}, Main: harness.Rate, Columns: modes,
		How: "8 goroutines in each of 4 processes, one name, held 1 ms. No competitor of this suite has read-write locks.",
	}, 4, harness.Load{Names: 1, ReadShare: 0.9, Goroutines: 8, HoldMin: ms, HoldMax: ms}, 1000*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "W8-sem", Title: "semaphore of 8", Competitors: []string{us}, Main: harness.Rate, Columns: modes,
		How: "8 goroutines in each of 4 processes, one name, held 1 ms. No competitor of this suite has semaphores.",
	}, 4, harness.Load{Names: 1, Permits: 8, Goroutines: 8, HoldMin: ms, HoldMax: ms}, 1000*ms, nil))

	ratio := func(id, key, otherID, other string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) { return r.Ratio(id, us, key, otherID, other, key) }
	}
	figure := func(id, key string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) { return r.Figure(id, us, key) }
	}
	shared := func(row string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			return r.Ratio("W3-redisson", row, harness.P50, "W3-redisson", rlock, harness.P50)
		}
	}
	longest := func(id string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			s, ok := r.Figure(id, us, harness.Longest)
			return harness.Stat{Median: s.Max / 1e6, Min: s.Min / 1e6, Max: s.Max / 1e6}, ok
		}
	}
	f.Targets = []harness.Target{
		{ID: "uncontended", What: "lock and unlock, one goroutine, p50", Want: "<= 1.5 x SET NX", Most: 1.5, Of: ratio("W1", harness.P50, "W1", setnx)},
		{ID: "uncontended-floor", What: "lock and unlock, one goroutine, p50", Want: "<= 1.15 x SET NX", Most: 1.15, Of: ratio("W1", harness.P50, "W1", setnx)},
		{ID: "uncontended-peer", What: "lock and unlock, one goroutine, p50", Want: "<= 1.1 x redislock", Most: 1.1, Of: ratio("W1", harness.P50, "W1", redislock)},
		{ID: "two-requests", What: "requests per uncontended lock and unlock", Want: "exactly 2", Exact: true, Most: 2, Least: 2, Of: figure("W1", harness.Requests)},
		{ID: "own-names-best", What: "64 goroutines, own names: pairs/s by the best competitor's", Want: ">= 1.5", Least: 1.5,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Best("W2", harness.Rate, false) }},
		{ID: "own-names", What: "64 goroutines, own names: pairs/s", Want: ">= 0.7 x SET NX", Least: 0.7, Of: ratio("W2", harness.Rate, "W2", setnx)},
		{ID: "own-names-floor", What: "64 goroutines, own names: pairs/s", Want: ">= 0.83 x SET NX", Least: 0.83, Of: ratio("W2", harness.Rate, "W2", setnx)},
		{ID: "relay-8", What: "hand-over between 8 processes, relayed, p50", Want: "<= 1.3 x BLPOP", Most: 1.3, Of: ratio("W3-relay-8", harness.P50, "W3-relay-8", blpop)},
		{ID: "relay-2", What: "hand-over between 2 processes, relayed, p50", Want: "<= 1.3 x BLPOP", Most: 1.3, Of: ratio("W3-relay-2", harness.P50, "W3-relay-2", blpop)},
		{ID: "free-8-rate", What: "hand-over between 8 processes, free: owner changes/s", Want: ">= 0.55 x BLPOP", Least: 0.55, Of: ratio("W3-free-8", harness.Rate, "W3-free-8", blpop)},
		{ID: "free-8-floor", What: "hand-over between 8 processes, free: owner changes/s", Want: ">= 0.74 x BLPOP", Least: 0.74, Of: ratio("W3-free-8", harness.Rate, "W3-free-8", blpop)},
		{ID: "free-8-best", What: "hand-over between 8 processes, free: owner changes/s by the best competitor's", Want: ">= 2", Least: 2,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Best("W3-free-8", harness.Rate, false) }},
		{ID: "woken-by-java", What: "hand-over from Redisson to leasehold, p50", Want: "<= 2 x Redisson to Redisson", Most: 2, Of: shared(rlockToUs)},
		{ID: "woken-by-us", What: "hand-over from leasehold to Redisson, p50", Want: "<= 2 x Redisson to Redisson", Most: 2, Of: shared(usToRLock)},
		{ID: "longest-relay", What: "hand-over between 8 processes, relayed: longest (ms)", Want: "<= 100", Most: 100, Of: longest("W3-relay-8")},
		{ID: "longest-free", What: "hand-over between 8 processes, free: longest (ms)", Want: "<= 100", Most: 100, Of: longest("W3-free-8")},
		{ID: "fair-relay", What: "Jain index, 8 processes, relayed", Want: ">= 0.99", Least: 0.99, Of: figure("W3-relay-8", harness.Fair)},
		{ID: "fair-free", What: "Jain index, 8 processes, free", Want: ">= 0.99", Least: 0.99, Of: figure("W3-free-8", harness.Fair)},
		{ID: "served-free", What: "processes never served, free", Want: "0", Most: 0.001, Of: figure("W3-free-8", harness.Never)},
		{ID: "queue-8", What: "requests per hand-over without renewals, 8 clients waiting", Want: "<= 2", Most: 2.05, Of: withoutRenewals("W3-queue-8")},
		{ID: "queue-100", What: "requests per hand-over without renewals, 100 clients waiting", Want: "<= 2", Most: 2.05, Of: withoutRenewals("W3-queue-100")},
		{ID: "queue-500", What: "requests per hand-over without renewals, 500 clients waiting", Want: "<= 2", Most: 2.05, Of: withoutRenewals("W3-queue-500")},
		{ID: "goroutines-100", What: "100 goroutines of one process: owner changes/s by the best competitor's", Want: ">= 50", Least: 50,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Best("W4-100", harness.Rate, false) }},
		{ID: "goroutines-500", What: "500 goroutines of one process: owner changes/s by the best competitor's", Want: ">= 50", Least: 50,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Best("W4-500", harness.Rate, false) }},
		{ID: "idle", What: "100 waiters, idle: requests/s per waiting process", Want: "<= 2", Most: 2, Of: figure("W5", harness.PerProc)},
		{ID: "batches", What: "10,000 leases: requests per lease and renewal", Want: "<= 0.01", Most: 0.01,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				// Leases are renewed every third of the TTL.
				s, ok := r.Figure("W7", us, harness.PerLease)
				return harness.Stat{Median: s.Median / 3, Min: s.Min / 3, Max: s.Max / 3}, ok
			}},
		{ID: "killed", What: "holder killed: next holds after the deadline (ms)", Want: "<= 100", Most: 100,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				s, ok := r.Figure("W6", us, harness.Late)
				return harness.Stat{Median: s.Median / 1e6, Min: s.Min / 1e6, Max: s.Max / 1e6}, ok
			}},
	}
	f.Targets = append(f.Targets, redissonTargets(setnx)...)
	f.Targets = append(f.Targets, redlockTargets()...)
	return f
}

func redisStage(context.Context) (*harness.Stage, error) {
	s := &harness.Stage{}
	var running []*servers.RedisServer
	s.Close = func() {
		for _, r := range running {
			r.Close()
		}
	}
	for range redisMasters {
		r, err := servers.StartRedis(nil)
		if err != nil {
			s.Close()
			return nil, err
		}
		running = append(running, r)
		s.At.Addrs = append(s.At.Addrs, r.Addr)
	}
	version, err := running[0].Info("redis_version")
	if err != nil {
		s.Close()
		return nil, err
	}
	ways, closeWays, err := otherWays(s.At.Addrs)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.At.Addrs = append(s.At.Addrs, ways...)
	closeServers := s.Close
	s.Close = func() { closeWays(); closeServers() }
	s.Servers = []string{"redis-server " + version + ", nothing on disk, over loopback TCP"}
	s.Reset = func(context.Context) error {
		for _, r := range running {
			if _, err := r.Do("FLUSHALL"); err != nil {
				return err
			}
		}
		return nil
	}
	s.Keepalive = "PING" // rueidis sends one now and then over each idle connection
	s.ServerCPU = func() (sum time.Duration, err error) {
		for _, r := range running {
			for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
				text, err := r.Info(field)
				if err != nil {
					return 0, err
				}
				seconds, err := strconv.ParseFloat(text, 64)
				if err != nil {
					return 0, err
				}
				sum += time.Duration(seconds * float64(time.Second))
			}
		}
		return sum, nil
	}
	s.Counted = func() (*harness.Traffic, error) { return countedTraffic(s.At, servers.NewProxy, settingUp) }
	return s, nil
}

// settingUp is what clients say once per connection: no part of any lock.
func settingUp(command string) bool {
	switch command {
	case "HELLO", "AUTH", "SELECT", "CLIENT SETINFO", "CLIENT SETNAME", "CLIENT TRACKING", "CLIENT MAINT_NOTIFICATIONS", "CLIENT ID", "CLUSTER SHARDS", "CLUSTER SLOTS", "SUBSCRIBE", "PSUBSCRIBE":
		return true
	}
	return false
}

// countedTraffic leads to servers through proxies that count. settingUp says what is
// left out.
func countedTraffic(at harness.Endpoint, proxy func(string) (*servers.Proxy, error), settingUp func(string) bool) (*harness.Traffic, error) {
	var proxies []*servers.Proxy
	w := &harness.Traffic{At: at}
	w.At.Addrs = nil
	w.Close = func() {
		for _, p := range proxies {
			p.Close()
		}
	}
	for _, addr := range at.Addrs {
		p, err := proxy(addr)
		if err != nil {
			w.Close()
			return nil, err
		}
		proxies = append(proxies, p)
		w.At.Addrs = append(w.At.Addrs, p.Addr)
	}
	w.Requests = func() map[string]int {
		n := map[string]int{}
		for _, p := range proxies {
			for command, count := range p.Commands() {
				if !settingUp(command) {
					n[command] += count
				}
			}
		}
		return n
	}
	w.Forget = func() {
		for _, p := range proxies {
			p.Forget()
		}
	}
	return w, nil
}
