package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"leasehold/engine/postgres/pglock"
	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
)

// sqlSuite is everything that locks in a database. Workloads on PostgreSQL begin
// with P.
func sqlSuite() *harness.Suite {
	const us, baseline, advisory, ms = harness.Us, "two UPDATEs", "pg_advisory_lock", time.Millisecond
	pair := []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests}
	handover := []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax, harness.ColChanges, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever}
	f := &harness.Suite{
		Name: "sql", Title: "SQL: PostgreSQL, one server",
		Competitors: []harness.Competitor{competitors.Statements(), competitors.Advisory(), competitors.Postgres()},
		Start:       sqlStage,
	}
	add := func(w harness.Workload) { f.Workloads = append(f.Workloads, w) }

	add(harness.Cycling(harness.Workload{
		ID: "P1", Title: "uncontended, one goroutine", Competitors: []string{baseline, advisory, us}, Columns: pair, Main: harness.P50, Lower: true,
		How: "One goroutine locks and unlocks a name of its own. The p50 and p99 are of the whole pair. An advisory lock stores nothing.",
	}, 1, harness.Load{}, 1500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "P2", Title: "uncontended, 64 goroutines of one process", Competitors: []string{baseline, advisory, us}, Columns: pair, Main: harness.Rate,
		How: "64 goroutines of one process and one pool of four connections, each with a name of its own. leasehold's callers share transactions.",
	}, 1, harness.Load{Goroutines: 64}, 1500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "P3-relay-8", Title: "hand-over between 8 processes, relayed, held 2 ms", Competitors: []string{advisory, us}, Columns: handover, Main: harness.P50, Lower: true,
		How: "The releaser asks again only when the next client holds. The p50 and p99 are from the call of Unlock to the return of the next holder's Lock.",
	}, 8, harness.Load{Names: 1, Relay: true, HoldMin: 2 * ms, HoldMax: 2 * ms}, 2500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "P3-free-8", Title: "hand-over between 8 processes, free", Competitors: []string{advisory, us}, Columns: handover, Main: harness.Rate,
		How: "Lock and unlock as fast as possible; only changes of owner count.",
	}, 8, harness.Load{Names: 1}, 2000*ms, nil))
	for _, n := range []int{8, 100, 500} {
		add(queueOf("P3", n, "statements", handover))
	}
	add(harness.Idle(harness.Workload{
		ID: "P5", Title: "one holder, 100 waiters in 4 processes, idle", Competitors: []string{us}, Main: harness.PerSecond, Lower: true, Once: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "statements/s"}, {Key: harness.PerProc, Head: "per process"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}},
		How:     "The cost of waiting while nothing happens, counted over 10 s. An advisory lock waits without a statement, on 100 connections.",
	}, 4, 100, 10*time.Second))
	add(harness.Killed(harness.Workload{
		ID: "P6", Title: "the holder is killed, TTL 2 s", Competitors: []string{us}, Main: harness.Late, Lower: true,
		Columns: []harness.Column{{Key: harness.Late, Head: "after the deadline", Unit: harness.Nanoseconds}, {Key: harness.Outage, Head: "after the kill", Unit: harness.Nanoseconds}},
		How:     "The holder gets SIGKILL about half a second after it obtained the lock, while one process waits and no process sweeps. The deadline is the time that the server says is left of the lock right after the kill.",
	}, 2*time.Second))
	add(harness.IdleLoad(harness.Workload{
		ID: "P7", Title: "10,000 leases held by one client, TTL 10 s", Competitors: []string{us}, Main: harness.PerSecond, Lower: true, SkipQuick: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "statements/s"}, {Key: harness.PerLease, Head: "statements per lease and TTL"}, {Key: harness.Calls, Head: "renew calls"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}, {Key: harness.Weight, Head: "bytes/lease"}},
		How:     "Memory is heap and stacks of the client, including its connections. Advisory locks, each on a connection of its own, would need 10,000 connections.",
	}, 10_000, 10*time.Second, 10*time.Second))

	f.Targets = []harness.Target{
		{ID: "uncontended", What: "PostgreSQL: lock and unlock, one goroutine, p50", Want: "<= 2.5 x two UPDATEs", Most: 2.5,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("P1", us, harness.P50, "P1", baseline, harness.P50)
			}},
		{ID: "pair-advisory", What: "PostgreSQL: lock and unlock, one goroutine, p50", Want: "<= 2 x pg_advisory_lock", Most: 2,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("P1", us, harness.P50, "P1", advisory, harness.P50)
			}},
		{ID: "names-64", What: "PostgreSQL: 64 goroutines with own names, pairs/s", Want: ">= 0.58 x pg_advisory_lock", Least: 0.58,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("P2", us, harness.Rate, "P2", advisory, harness.Rate)
			}},
		{ID: "free-8", What: "PostgreSQL: hand-over between 8 processes, free, owner changes/s", Want: ">= 0.42 x pg_advisory_lock", Least: 0.42,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("P3-free-8", us, harness.Rate, "P3-free-8", advisory, harness.Rate)
			}},
		{ID: "relay-8", What: "PostgreSQL: hand-over between 8 processes, relayed, p50", Want: "<= 4 x pg_advisory_lock", Most: 4,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				return r.Ratio("P3-relay-8", us, harness.P50, "P3-relay-8", advisory, harness.P50)
			}},
		{ID: "fair-relay", What: "PostgreSQL: Jain index, 8 processes, relayed", Want: ">= 0.99", Least: 0.99,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("P3-relay-8", us, harness.Fair) }},
		{ID: "queue-8", What: "PostgreSQL: statements per hand-over without renewals, 8 clients waiting", Want: "<= 2", Most: 2.05, Of: withoutRenewals("P3-queue-8")},
		{ID: "queue-100", What: "PostgreSQL: statements per hand-over without renewals, 100 clients waiting", Want: "<= 2", Most: 2.05, Of: withoutRenewals("P3-queue-100")},
		{ID: "queue-500", What: "PostgreSQL: statements per hand-over without renewals, 500 clients waiting", Want: "<= 2", Most: 2.05, Of: withoutRenewals("P3-queue-500")},
		{ID: "idle", What: "PostgreSQL: 100 waiters, idle: statements/s per waiting process", Want: "<= 2", Most: 2,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("P5", us, harness.PerProc) }},
		{ID: "killed", What: "PostgreSQL: holder killed: next holds after the kill (ms), TTL 2 s", Want: "<= 3000", Most: 3000,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				s, ok := r.Figure("P6", us, harness.Outage)
				return harness.Stat{Median: s.Median / 1e6, Min: s.Min / 1e6, Max: s.Max / 1e6}, ok
			}},
		{ID: "batches", What: "PostgreSQL: 10,000 leases: statements per lease and renewal", Want: "<= 0.011", Most: 0.011,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				// Leases are renewed every third of the TTL.
				s, ok := r.Figure("P7", us, harness.PerLease)
				return harness.Stat{Median: s.Median / 3, Min: s.Min / 3, Max: s.Max / 3}, ok
			}},
	}
	return f
}

// sqlStage starts PostgreSQL with as many connections as the longest queue needs: each
// client has its listener and one or more to ask with.
func sqlStage(context.Context) (*harness.Stage, error) {
	server, err := servers.StartPostgres(&servers.PostgresOptions{Args: []string{"-c", "max_connections=2500"}})
	if err != nil {
		return nil, err
	}
	s := &harness.Stage{
		At:        harness.Endpoint{Addrs: []string{server.Addr}},
		Keepalive: "--", // pgx' ping of connections that were idle: no part of a lock
		ServerCPU: func() (time.Duration, error) { return cpuBelow(server.PID()) },
		Close:     func() { server.Close() },
		Reset: func(context.Context) error {
			// What former clients left running would keep the tables locked.
			_, err := server.Query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid();
				TRUNCATE floor, leasehold.names, leasehold.claims`)
			return err
		},
	}
	schema, err := pglock.Schema(nil)
	if err == nil {
		_, err = server.Query(schema + "CREATE TABLE floor (k text PRIMARY KEY, v bigint NOT NULL) WITH (fillfactor = 50)")
	}
	version := ""
	if err == nil {
		version, err = server.Query("SHOW server_version")
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	version, _, _ = strings.Cut(version, " ")
	s.Servers = []string{"PostgreSQL " + version + ", every commit synced, over loopback TCP"}
	s.Counted = func() (*harness.Traffic, error) {
		return countedTraffic(s.At, servers.NewPostgresProxy, func(statement string) bool {
			// What a connection does once.
			return statement == "prepare" || statement == "LISTEN"
		})
	}
	return s, nil
}

// cpuBelow is the CPU time of a server that serves each connection with a process:
// its own, that of the processes it has, and of those that have ended.
func cpuBelow(pid int) (time.Duration, error) {
	sum, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		if used, err := cpuOf(n); err == nil { // else it has just ended
			sum += used
		}
	}
	return sum, nil
}
