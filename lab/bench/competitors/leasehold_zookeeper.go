package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/zookeeper/zklock"
	"leasehold/lab/bench/harness"
)

// ZooKeeper is leasehold on ZooKeeper.
func ZooKeeper() harness.Competitor {
	return ours(harness.Us, "engine zklock, all defaults: a session of twice the TTL, 30 s or the most that the servers allow, trusted for half of it, proven every third of that",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return zklock.New(ctx, zklock.Options{Servers: at.Addrs})
		})
}
