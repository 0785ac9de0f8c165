//go:build !no_redis

package engines

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/redis"
)

func openRedis(ctx context.Context, rawURL string) (engine.Engine, error) {
	return redis.Open(ctx, rawURL)
}

func examineRedis(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return redis.Examine(ctx, rawURL, o, found)
}
