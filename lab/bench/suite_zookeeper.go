package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/internal/proc"
	"leasehold/lab/servers"
)

// zookeeperSuite is everything that locks on ZooKeeper.
func zookeeperSuite() *harness.Suite {
	const us, zkLock = harness.Us, "zk.Lock"
	both := []string{us, zkLock}
	pair := []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests}
	handover := []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax, harness.ColChanges, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever}
	const ms = time.Millisecond

	f := &harness.Suite{
		Name:        "zookeeper",
		Title:       "ZooKeeper, one server",
		Competitors: []harness.Competitor{competitors.ZooKeeper(), competitors.ZKLock()},
		Start:       zookeeperStage,
	}
	f.Competitors = append(f.Competitors, curators()...)
	java := curatorLibrary()
	add := func(w harness.Workload) { f.Workloads = append(f.Workloads, w) }

	add(java.alsoJava(harness.Cycling(harness.Workload{
		ID: "W1", Title: "uncontended, one goroutine", Competitors: append(both[:2:2], mutex), Columns: pair, Main: harness.P50, Lower: true,
		How: "One goroutine locks and unlocks a name of its own. The p50 and p99 are of the whole pair. Requests are counted exactly, over 100 pairs.",
	}, 1, harness.Load{}, 1000*ms, nil)))
	add(harness.Cycling(harness.Workload{
		ID: "W2", Title: "uncontended, 64 goroutines of one process", Competitors: both, Columns: pair, Main: harness.Rate,
		How: "64 goroutines of one process and one client, each with a name of its own.",
	}, 1, harness.Load{Goroutines: 64}, 1000*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "W3-relay-8", Title: "hand-over between 8 processes, relayed, held 2 ms", Competitors: both, Columns: handover, Main: harness.P50, Lower: true,
		How: "The releaser asks again only when the next client holds, so only a client that was blocked takes the lock. The p50 and p99 are from the call of Unlock to the return of the next holder's Lock.",
	}, 8, harness.Load{Names: 1, Relay: true, HoldMin: 2 * ms, HoldMax: 2 * ms}, 1500*ms, nil))
	add(java.handingOver("W3-curator", []string{mutex, us, mutexToUs, usToMutex}))
	for _, n := range []int{8, 100, 500} {
		add(queueOf("W3", n, "requests", handover))
	}
	add(harness.Killed(harness.Workload{
		ID: "W6", Title: "the holder is killed, session 4 s", Competitors: []string{us}, Main: harness.Outage, Lower: true,
		Columns: []harness.Column{{Key: harness.Outage, Head: "after the kill", Unit: harness.Nanoseconds}},
		How:     "The holder gets SIGKILL about half a second after it obtained the lock, while one process waits. When its session has timed out, the servers end it at their next tick (1 s).",
	}, 2*time.Second))
	add(harness.IdleLoad(harness.Workload{
		ID: "W7", Title: "10,000 leases held by one client, TTL 6 s", Competitors: []string{us}, Main: harness.PerSecond, Lower: true, SkipQuick: true, Once: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "requests/s"}, {Key: harness.PerLease, Head: "requests per lease and TTL"}, {Key: harness.Calls, Head: "renew calls"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}, {Key: harness.Weight, Head: "bytes/lease"}},
		How:     "Memory is heap and stacks of the client, including its connection.",
	}, 10_000, 6*time.Second, 6*time.Second))

	shared := func(row string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) {
			return r.Ratio("W3-curator", row, harness.P50, "W3-curator", mutex, harness.P50)
		}
	}
	ratio := func(id, key string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) { return r.Ratio(id, us, key, id, zkLock, key) }
	}
	f.Targets = []harness.Target{
		{ID: "uncontended", What: "lock and unlock, one goroutine, p50", Want: "<= zk.Lock", Most: 1, Of: ratio("W1", harness.P50)},
		{ID: "own-names", What: "64 goroutines, own names: pairs/s", Want: ">= 2 x zk.Lock", Least: 2, Of: ratio("W2", harness.Rate)},
		{ID: "relay-8", What: "hand-over between 8 processes, relayed, p50", Want: "<= 0.9 x zk.Lock", Most: 0.9, Of: ratio("W3-relay-8", harness.P50)},
		{ID: "curator", What: "hand-over between two processes, p50", Want: "<= Curator to Curator", Most: 1, Of: shared(us)},
		{ID: "woken-by-java", What: "hand-over from Curator to leasehold, p50", Want: "<= 2 x Curator to Curator", Most: 2, Of: shared(mutexToUs)},
		{ID: "woken-by-us", What: "hand-over from leasehold to Curator, p50", Want: "<= 2 x Curator to Curator", Most: 2, Of: shared(usToMutex)},
		{ID: "fair-relay", What: "Jain index, 8 processes, relayed", Want: ">= 0.99", Least: 0.99,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("W3-relay-8", us, harness.Fair) }},
		{ID: "queue-8", What: "requests per hand-over without renewals, 8 clients waiting", Want: "<= 5, as zk.Lock", Most: 5.1, Of: withoutRenewals("W3-queue-8")},
		{ID: "queue-100", What: "requests per hand-over without renewals, 100 clients waiting", Want: "<= 5, as zk.Lock", Most: 5.1, Of: withoutRenewals("W3-queue-100")},
		{ID: "queue-500", What: "requests per hand-over without renewals, 500 clients waiting", Want: "<= 5, as zk.Lock", Most: 5.1, Of: withoutRenewals("W3-queue-500")},
		{ID: "killed", What: "holder killed: next holds after the kill (ms), session 4 s", Want: "<= 5000", Most: 5000,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				s, ok := r.Figure("W6", us, harness.Outage)
				return harness.Stat{Median: s.Median / 1e6, Min: s.Min / 1e6, Max: s.Max / 1e6}, ok
			}},
		{ID: "batches", What: "10,000 leases: requests per lease and renewal", Want: "<= 0.0006: one for 2,000, and pings", Most: 0.0006,
			Of: func(r *harness.Results) (harness.Stat, bool) {
				// Leases are renewed every third of the TTL, in as many calls as
				// package leasehold makes of them.
				s, ok := r.Figure("W7", us, harness.PerLease)
				return harness.Stat{Median: s.Median / 3, Min: s.Min / 3, Max: s.Max / 3}, ok
			}},
		{ID: "leases-cpu", What: "10,000 leases: CPU of a core", Want: "< 0.05", Most: 0.05,
			Of: func(r *harness.Results) (harness.Stat, bool) { return r.Figure("W7", us, harness.Share) }},
	}
	return f
}

// zookeeperTick is half of a server's as it comes: sessions end at a tick, and one of
// four seconds is to end within a second of its time.
const zookeeperTick = time.Second

func zookeeperStage(ctx context.Context) (*harness.Stage, error) {
	server, err := servers.StartZooKeeper(&servers.ZooKeeperOptions{Tick: zookeeperTick})
	if err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect([]string{server.Addr}, 20*time.Second, zk.WithLogInfo(false))
	if err != nil {
		server.Close()
		return nil, err
	}
	s := &harness.Stage{
		At:        harness.Endpoint{Addrs: []string{server.Addr}},
		Servers:   []string{"ZooKeeper of Debian's package, nothing synced to disk, over loopback TCP"},
		Keepalive: "ping",
		Reset:     func(context.Context) error { return empty(conn, "/") },
		ServerCPU: func() (time.Duration, error) { return proc.CPU(server.PID()) },
		Close: func() {
			conn.Close()
			server.Close()
		},
	}
	s.Counted = func() (*harness.Traffic, error) {
		return countedTraffic(s.At, servers.NewZooKeeperProxy, func(op string) bool {
			return op == "session" || op == "closeSession" || op == "exists" // with which zklock looks at its root
		})
	}
	for {
		select {
		case ev := <-events:
			if ev.State == zk.StateHasSession {
				return s, nil
			}
		case <-ctx.Done():
			s.Close()
			return nil, ctx.Err()
		}
	}
}

// empty removes all that is below a node, claims of clients that died included.
func empty(conn *zk.Conn, path string) error {
	children, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range children {
		if path == "/" && child == "zookeeper" {
			continue // the server's own
		}
		below := strings.TrimSuffix(path, "/") + "/" + child
		if err := empty(conn, below); err != nil {
			return err
		}
		if err := conn.Delete(below, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("%s: %w", below, err)
		}
	}
	return nil
}
