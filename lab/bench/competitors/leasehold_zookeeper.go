package competitors

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/engine/zookeeper/zklock"
	"leasehold/lab/bench/harness"
)

// ZooKeeper is leasehold on ZooKeeper.
func ZooKeeper() harness.Competitor {
	return ours(harness.Us, "engine zklock, all defaults: a session of 20 s, trusted for half of it, proven every third of that",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return zklock.New(ctx, zklock.Options{Servers: at.Addrs, Session: session(at)})
		})
}

// session is twice the TTL of a load, which is what zklock makes of a TTL.
func session(at harness.Endpoint) time.Duration {
	if at.TTL == 0 {
		return zklock.DefaultSession
	}
	return 2 * at.TTL
}
