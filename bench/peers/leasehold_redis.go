package peers

import (
	"context"

	"leasehold/bench/harness"
	"leasehold/engine"
	"leasehold/engine/redis/redislock"
)

// Redis is leasehold on one Redis.
func Redis() harness.Peer {
	return ours(harness.Us, "engine redislock, opened by its URL, all defaults: TTL 30 s, renewed every third of it",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return redislock.Open(ctx, "redis://"+at.Addrs[0])
		})
}
