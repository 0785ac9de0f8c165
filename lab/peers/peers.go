package main

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/lab/interop/curator"
	"leasehold/lab/interop/redisson"
)

// peer is a lock, and what the documentation of its library promises.
type peer struct {
	name    string // a URL has it as its scheme
	shown   string
	store   string // of greetings
	module  string // of Go, whose version counts; empty: version says it
	version string
	page    string // of the documentation

	renewal string // who renews
	learns  string // how a holder learns that the lock is lost
	order   string
	fencing string
	release engine.CrashRelease

	ttl    time.Duration // of trials
	ways   []bool        // to be tried: asked or not
	speaks bool          // Unlock says whether the lock was held to its end
	tells  bool          // it notifies a holder of a loss
	open   func(context.Context, place) (library, error)
}

const (
	nothing = "promises nothing"
	second  = time.Second
)

// The ways in which a lock is tried.
var (
	notified = []bool{false}
	both     = []bool{false, true}
	asks     = []bool{true}
)

// ourPage is that of leasehold.
const ourPage = "guarantees.md"

// peers are all locks: those of one store together, and leasehold's first.
func peers() []*peer {
	return []*peer{
		our("redis", "Redis", engine.CrashTTL, second, both),
		{
			name: "redsync", shown: "redsync", store: "Redis", module: "github.com/go-redsync/redsync/v4", page: "https://pkg.go.dev/github.com/go-redsync/redsync/v4",
			renewal: "the user, by `Extend`", learns: "`Until` says until when; `Extend` fails", order: nothing, fencing: nothing,
			ttl: second, ways: both, speaks: true, open: openRedsync,
		},
		{
			name: "redislock", shown: "redislock", store: "Redis", module: "github.com/bsm/redislock", page: "https://pkg.go.dev/github.com/bsm/redislock",
			renewal: "the user, by `Refresh`", learns: "`TTL` asks the server; `Refresh` fails", order: nothing, fencing: nothing,
			ttl: second, ways: both, speaks: true, open: openRedislock,
		},
		{
			name: "rueidislock", shown: "rueidislock", store: "Redis", module: "github.com/redis/rueidis", page: "https://pkg.go.dev/github.com/redis/rueidis/rueidislock",
			renewal: "the library", learns: "a context ends", order: nothing, fencing: nothing,
			ttl: second, ways: notified, tells: true, open: openRueidislock,
		},
		{
			name: "redisson", shown: "Redisson `RLock`", store: "Redis", version: redisson.Current, page: "https://redisson.pro/docs/data-and-services/locks-and-synchronizers/",
			renewal: "the library (watchdog)", learns: nothing + "; `isHeldByCurrentThread` asks the server", order: nothing, fencing: "another lock, `RFencedLock`, has it",
			ttl: second, ways: both, speaks: true, open: openRedisson,
		},
		ourElection("redis", "Redis", engine.CrashTTL, second),
		our("etcd", "etcd", engine.CrashSession, 2*second, asks),
		{
			name: "concurrency", shown: "etcd `concurrency.Mutex`", store: "etcd", module: "go.etcd.io/etcd/client/v3", page: "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency",
			renewal: "the library", learns: "`Session.Done` is closed", order: "that of the keys", fencing: "`IsOwner`, for transactions of etcd",
			release: engine.CrashSession, ttl: 2 * second, ways: notified, tells: true, open: openEtcd,
		},
		ourElection("etcd", "etcd", engine.CrashSession, 2*second),
		{
			name: "election", shown: "etcd `concurrency.Election`", store: "etcd", module: "go.etcd.io/etcd/client/v3", page: "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency",
			renewal: "the library", learns: "`Session.Done` is closed", order: "that of the keys", fencing: "`Rev`, the revision of the leader's key",
			release: engine.CrashSession, ttl: 2 * second, ways: notified, tells: true, open: openEtcdElections,
		},
		our("zookeeper", "ZooKeeper", engine.CrashSession, second, asks),
		{
			name: "zk", shown: "go-zookeeper `zk.Lock`", store: "ZooKeeper", module: "github.com/go-zookeeper/zk", page: "https://pkg.go.dev/github.com/go-zookeeper/zk#Lock",
			renewal: "the library (session)", learns: nothing + "; the connection has events", order: "that of the nodes", fencing: nothing,
			release: engine.CrashSession, ttl: second, ways: notified, speaks: true, open: openZK,
		},
		{
			name: "curator", shown: "Curator `InterProcessMutex`", store: "ZooKeeper", version: curator.Current, page: "https://curator.apache.org/docs/recipes-shared-reentrant-lock",
			renewal: "the library (session)", learns: "a `ConnectionStateListener` hears SUSPENDED and LOST", order: "in the order of requests", fencing: nothing,
			release: engine.CrashSession, ttl: second, ways: notified, tells: true, open: openCurator,
		},
		ourElection("zookeeper", "ZooKeeper", engine.CrashSession, second),
		ourElection("postgres", "PostgreSQL", engine.CrashTTL, second),
	}
}

// our is leasehold on a store.
func our(scheme, store string, release engine.CrashRelease, ttl time.Duration, ways []bool) *peer {
	return &peer{
		name: "leasehold-" + scheme, shown: "leasehold", store: store, version: "this one", page: ourPage,
		renewal: "the library", learns: "a context ends; `Valid` says it", order: "first come, first served", fencing: "a token",
		release: release, ttl: ttl, ways: ways, speaks: true, tells: true, open: openOurs(scheme),
	}
}

// ourElection is package elect on a store.
func ourElection(scheme, store string, release engine.CrashRelease, ttl time.Duration) *peer {
	return &peer{
		name: "elect-" + scheme, shown: "leasehold `elect`", store: store, version: "this one", page: "tour.md#lead",
		renewal: "the library", learns: "a context ends; `IsLeader` says it", order: "of the two that wait, first come, first served", fencing: "a token",
		release: release, ttl: ttl, ways: asks, speaks: true, tells: true,
		open: openOurElections(func(addr string) string {
			if scheme == "postgres" {
				return "postgres://postgres@" + addr + "/postgres"
			}
			return scheme + "://" + addr
		}),
	}
}

func peerOf(name string) *peer {
	all := peers()
	i := slices.IndexFunc(all, func(p *peer) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// released is the version that runs.
func (p *peer) released() string {
	info, ok := debug.ReadBuildInfo()
	if p.module == "" || !ok {
		return p.version
	}
	for _, m := range info.Deps {
		if m.Path == p.module {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}
