package main

import (
	"context"
	"maps"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
)

// etcdSuite is leasehold beside the lock of etcd's own client library.
func etcdSuite() *harness.Suite {
	const us, mutex, ms = harness.Us, "concurrency.Mutex", time.Millisecond
	both := []string{mutex, us}
	pair := []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColCPU, harness.ColServer, harness.ColRequests}
	handover := []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax, harness.ColChanges, harness.ColCPU, harness.ColServer, harness.ColRequests, harness.ColFair, harness.ColNever}
	f := &harness.Suite{
		Name: "etcd", Title: "etcd, one member",
		Competitors: []harness.Competitor{competitors.EtcdMutex(), competitors.Etcd()},
		Start:       etcdStage,
	}
	add := func(w harness.Workload) { f.Workloads = append(f.Workloads, w) }

	add(harness.Cycling(harness.Workload{
		ID: "E1", Title: "uncontended, one goroutine", Competitors: both, Columns: pair, Main: harness.P50, Lower: true,
		How: "One goroutine locks and unlocks a name of its own. The p50 and p99 are of the whole pair: two commits, each synced to the disk.",
	}, 1, harness.Load{}, 1500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "E2", Title: "uncontended, 64 goroutines of one process", Competitors: both, Columns: pair, Main: harness.Rate,
		How: "64 goroutines of one process and one client, each with a name of its own.",
	}, 1, harness.Load{Goroutines: 64}, 1500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "E3-relay-8", Title: "hand-over between 8 processes, relayed, held 2 ms", Competitors: both, Columns: handover, Main: harness.P50, Lower: true,
		How: "The releaser asks again only when the next client holds. The p50 and p99 are from the call of Unlock to the return of the next holder's Lock.",
	}, 8, harness.Load{Names: 1, Relay: true, HoldMin: 2 * ms, HoldMax: 2 * ms}, 2500*ms, nil))
	add(harness.Cycling(harness.Workload{
		ID: "E3-free-8", Title: "hand-over between 8 processes, free", Competitors: both, Columns: handover, Main: harness.Rate,
		How: "Lock and unlock as fast as possible; only changes of owner count.",
	}, 8, harness.Load{Names: 1}, 2000*ms, nil))
	for _, n := range []int{8, 100, 500} {
		add(queueOf("E3", n, "requests", handover))
	}
	add(harness.IdleLoad(harness.Workload{
		ID: "E7", Title: "10,000 leases held by one client, TTL 10 s", Competitors: []string{us}, Main: harness.PerSecond, Lower: true, SkipQuick: true,
		Columns: []harness.Column{{Key: harness.PerSecond, Head: "requests/s"}, {Key: harness.PerLease, Head: "requests per lease and TTL"}, {Key: harness.Calls, Head: "renew calls"}, {Key: harness.Share, Head: "CPU of a core", Unit: harness.Percent}, {Key: harness.Weight, Head: "bytes/lease"}},
		How:     "The library's Session keeps its etcd lease alive and checks no key; each renewal of leasehold checks that the keys are there.",
	}, 10_000, 10*time.Second, 10*time.Second))

	ratio := func(id, key string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) { return r.Ratio(id, us, key, id, mutex, key) }
	}
	f.Targets = []harness.Target{
		{ID: "uncontended", What: "lock and unlock, one goroutine, p50", Want: "<= concurrency.Mutex", Most: 1, Of: ratio("E1", harness.P50)},
		{ID: "own-names", What: "64 goroutines, own names: pairs/s", Want: ">= 2 x concurrency.Mutex", Least: 2, Of: ratio("E2", harness.Rate)},
		{ID: "relay-8", What: "hand-over between 8 processes, relayed, p50", Want: "<= 0.7 x concurrency.Mutex", Most: 0.7, Of: ratio("E3-relay-8", harness.P50)},
		{ID: "relay-8-p99", What: "hand-over between 8 processes, relayed, p99", Want: "<= 0.1 x concurrency.Mutex", Most: 0.1, Of: ratio("E3-relay-8", harness.P99)},
		{ID: "queue-8", What: "requests per hand-over without renewals, 8 clients waiting", Want: "<= 5", Most: 5, Of: withoutRenewals("E3-queue-8")},
		{ID: "queue-100", What: "requests per hand-over without renewals, 100 clients waiting", Want: "<= 5", Most: 5, Of: withoutRenewals("E3-queue-100")},
		{ID: "queue-500", What: "requests per hand-over without renewals, 500 clients waiting", Want: "<= 5", Most: 5, Of: withoutRenewals("E3-queue-500")},
	}
	return f
}

func etcdStage(context.Context) (*harness.Stage, error) {
	server, err := servers.StartEtcd(nil)
	if err != nil {
		return nil, err
	}
	s := &harness.Stage{At: harness.Endpoint{Addrs: []string{server.Addr}}, Servers: []string{"etcd 3.6, every commit synced, over loopback TCP"}}
	admin, err := clientv3.New(clientv3.Config{Endpoints: s.At.Addrs, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		server.Close()
		return nil, err
	}
	s.Close = func() {
		admin.Close()
		server.Close()
	}
	s.Reset = func(ctx context.Context) error {
		_, err := admin.Delete(ctx, "", clientv3.WithFromKey())
		return err
	}
	s.ServerCPU = func() (time.Duration, error) {
		seconds, err := server.Metric("process_cpu_seconds_total", nil)
		return time.Duration(seconds * float64(time.Second)), err
	}
	s.Keepalive = "LeaseKeepAlive" // of a session: no part of any lock
	s.Counted = func() (*harness.Traffic, error) {
		w := &harness.Traffic{At: s.At, Close: func() {}}
		begin := map[string]int{}
		w.Forget = func() { begin = etcdRequests(server) }
		w.Requests = func() map[string]int {
			now := etcdRequests(server)
			maps.DeleteFunc(now, func(method string, n int) bool { return n == begin[method] })
			for method := range now {
				now[method] -= begin[method]
			}
			return now
		}
		return w, nil
	}
	return s, nil
}

// etcdRequests is how many requests of clients the server has received, by method.
// Of a watch only its beginning counts, which is every second message: nobody waits
// for an answer to its end.
func etcdRequests(server *servers.EtcdServer) map[string]int {
	counts := map[string]int{}
	for _, method := range []string{"Txn", "Range", "Put", "DeleteRange", "Watch", "LeaseGrant", "LeaseRevoke", "LeaseKeepAlive", "LeaseTimeToLive"} {
		n, err := server.Metric("grpc_server_msg_received_total", func(labels string) bool { return strings.Contains(labels, `grpc_method="`+method+`"`) })
		if method == "Watch" {
			n = (n + 1) / 2
		}
		if err == nil {
			counts[method] = int(n)
		}
	}
	return counts
}
