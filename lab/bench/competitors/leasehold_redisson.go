package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/redis/redissonlock"
	"leasehold/lab/bench/harness"
)

// Redisson is leasehold on one Redis, in Redisson's layout.
func Redisson() harness.Competitor {
	return ours("leasehold redisson", "engine redissonlock, opened by its URL, all defaults: the locks of Redisson's RLock",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return redissonlock.Open(ctx, "redisson://"+at.Addrs[0])
		})
}
