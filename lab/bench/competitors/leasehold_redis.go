package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/redis/queuelock"
	"leasehold/lab/bench/harness"
)

// Redis is leasehold on one Redis.
func Redis() harness.Competitor {
	return ours(harness.Us, "engine queuelock, opened by its URL, all defaults: TTL 30 s, renewed every third of it",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return queuelock.Open(ctx, "redis://"+at.Addrs[0])
		})
}
