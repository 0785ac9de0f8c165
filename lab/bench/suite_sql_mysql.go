package main

import (
	"context"
	"time"

	"leasehold/engine/mysql/mysqllock"
	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/internal/proc"
	"leasehold/lab/servers"
)

// mysqlSuite is everything that locks in MySQL and MariaDB, on a MariaDB. Workloads
// begin with M.
func mysqlSuite() *harness.Suite {
	const us, baseline, getLock, ms = harness.Us, "two UPDATEs", "GET_LOCK", time.Millisecond
	pair := []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests}
	handover := []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax, harness.ColChanges, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever}
	f := &harness.Suite{
		Name: "mysql", Title: "MySQL and MariaDB, one server",
		Competitors: []harness.Competitor{competitors.MySQLStatements(), competitors.GetLock(), competitors.MySQL()},
		Start:       mysqlStage,
	}
	add := func(w harness.Workload) { f.Workloads = append(f.Workloads, w) }

	add(harness.Cycling(harness.Workload{
		ID: "M1", Title: "uncontended, one goroutine", Competitors: []string{baseline, getLock, us}, Columns: pair, Main: harness.P50, Lower: true,
		How: "One goroutine locks and unlocks a name of its own. The p50 and p99 are of the whole pair. GET_LOCK stores nothing.",
	}, 1, harness.Load{}, 1500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "M2", Title: "uncontended, 64 goroutines of one process", Competitors: []string{baseline, getLock, us}, Columns: pair, Main: harness.Rate,
		How: "64 goroutines of one process and one pool of ten connections, each with a name of its own. leasehold's callers share transactions.",
	}, 1, harness.Load{Goroutines: 64}, 1500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "M3-relay-8", Title: "hand-over between 8 processes, relayed, held 2 ms", Competitors: []string{getLock, us}, Columns: handover, Main: harness.P50, Lower: true,
		How: "The releaser asks again only when the next client holds. The p50 and p99 are from the call of Unlock to the return of the next holder's Lock. MySQL does not notify clients: each waiting client has a doorbell.",
	}, 8, harness.Load{Names: 1, Relay: true, HoldMin: 2 * ms, HoldMax: 2 * ms}, 4000*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "M3-free-8", Title: "hand-over between 8 processes, free", Competitors: []string{getLock, us}, Columns: handover, Main: harness.Rate,
		How: "Lock and unlock as fast as possible; only changes of owner count.",
	}, 8, harness.Load{Names: 1}, 2000*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "M3-relay-100", Title: "hand-over between 8 processes, relayed, held 100 ms", Competitors: []string{us}, Columns: handover, Main: harness.P50, Lower: true,
		How: "The same with longer holds.",
	}, 8, harness.Load{Names: 1, Relay: true, HoldMin: 100 * ms, HoldMax: 100 * ms}, 6000*ms, nil))
	add(harness.Idle(harness.Workload{
		ID: "M5", Title: "one holder, 100 waiters in 4 processes, idle", Competitors: []string{us}, Main: harness.PerSecond, Lower: true, Once: true, SkipQuick: true, // a queue has to stand still for a while
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "statements/s"}, {Key: harness.PerProc, Head: "per process"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}},
		How:     "The cost of waiting while nothing happens, counted over 10 s. GET_LOCK waits without a statement, on 100 connections.",
	}, 4, 100, 10*time.Second))
	add(harness.Killed(harness.Workload{
		ID: "M6", Title: "the holder is killed, TTL 2 s", Competitors: []string{us}, Main: harness.Late, Lower: true,
		Columns: []harness.Column{{Key: harness.Late, Head: "after the deadline", Unit: harness.Nanoseconds}, {Key: harness.Outage, Head: "after the kill", Unit: harness.Nanoseconds}},
		How:     "The holder gets SIGKILL about half a second after it obtained the lock, while one process waits and no process sweeps. The deadline is the time that the server says is left of the lock right after the kill.",
	}, 2*time.Second))
	add(harness.IdleLoad(harness.Workload{
		ID: "M7", Title: "10,000 leases held by one client, TTL 10 s", Competitors: []string{us}, Main: harness.PerSecond, Lower: true, SkipQuick: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "statements/s"}, {Key: harness.PerLease, Head: "statements per lease and TTL"}, {Key: harness.Calls, Head: "renew calls"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}, {Key: harness.Weight, Head: "bytes/lease"}},
		How:     "Memory is heap and stacks of the client, including its connections.",
	}, 10_000, 10*time.Second, 10*time.Second))

	milliseconds := func(id, key string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			s, ok := r.Figure(id, us, key)
			return harness.Stat{Median: s.Median / 1e6, Min: s.Min / 1e6, Max: s.Max / 1e6}, ok
		}
	}
	f.Targets = []harness.Target{
		{ID: "uncontended", What: "MariaDB: lock and unlock, one goroutine, p50", Want: "<= 2.5 x two UPDATEs", Most: 2.5,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("M1", us, harness.P50, "M1", baseline, harness.P50)
			}},
		{ID: "pair", What: "MariaDB: lock and unlock, one goroutine, p50", Want: "<= 2 x GET_LOCK", Most: 2,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("M1", us, harness.P50, "M1", getLock, harness.P50)
			}},
		{ID: "goroutines-64", What: "MariaDB: 64 goroutines with names of their own: pairs/s", Want: ">= 10,000", Least: 10_000,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("M2", us, harness.Rate) }},
		{ID: "relay-8", What: "MariaDB: hand-over between 8 processes, held 2 ms, p50 (ms)", Want: "<= 0.6", Most: 0.6, Of: milliseconds("M3-relay-8", harness.P50)},
		{ID: "free-8", What: "MariaDB: hand-over between 8 processes, free: owner changes/s", Want: ">= 2,500", Least: 2_500,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("M3-free-8", us, harness.Rate) }},
		{ID: "relay-100", What: "MariaDB: hand-over between 8 processes, held 100 ms, p50 (ms)", Want: "<= 30", Most: 30, Of: milliseconds("M3-relay-100", harness.P50)},
		{ID: "fair-relay", What: "MariaDB: Jain index, 8 processes, relayed", Want: ">= 0.99", Least: 0.99,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("M3-relay-8", us, harness.Fair) }},
		{ID: "idle", What: "MariaDB: 100 waiters, idle: statements/s per waiting process", Want: "<= 2", Most: 2,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("M5", us, harness.PerProc) }},
		{ID: "killed", What: "MariaDB: holder killed: next holds after the kill (ms), TTL 2 s", Want: "<= 3000", Most: 3000, Of: milliseconds("M6", harness.Outage)},
		{ID: "batches", What: "MariaDB: 10,000 leases: statements per lease and renewal", Want: "<= 0.011", Most: 0.011,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				// Leases are renewed every third of the TTL.
				s, ok := r.Figure("M7", us, harness.PerLease)
				return harness.Stat{Median: s.Median / 3, Min: s.Min / 3, Max: s.Max / 3}, ok
			}},
	}
	return f
}

func mysqlStage(context.Context) (*harness.Stage, error) {
	server, err := servers.StartMariaDB(&servers.MariaDBOptions{Args: []string{"--max-connections=2500"}})
	if err != nil {
		return nil, err
	}
	s := &harness.Stage{
		At:        harness.Endpoint{Addrs: []string{server.Addr}},
		ServerCPU: func() (time.Duration, error) { return proc.CPU(server.PID()) },
		Close:     func() { server.Close() },
		Reset: func(context.Context) error {
			_, err := server.Query("USE test; TRUNCATE floor; DELETE FROM leasehold_claims; DELETE FROM leasehold_names")
			return err
		},
	}
	schema, err := mysqllock.Schema(nil)
	if err == nil {
		_, err = server.Query("USE test;\n" + schema + "CREATE TABLE floor (k VARCHAR(200) PRIMARY KEY, v BIGINT NOT NULL);")
	}
	version := ""
	if err == nil {
		version, err = server.Query("SELECT VERSION()")
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Servers = []string{version + ", every commit synced, over loopback TCP"}
	s.Counted = func() (*harness.Traffic, error) {
		return countedTraffic(s.At, servers.NewMySQLProxy, func(statement string) bool {
			// What a connection does once.
			return statement == "SET" || statement == "quit"
		})
	}
	return s, nil
}
