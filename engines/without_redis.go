//go:build no_redis

package engines

import (
	"context"

	"leasehold/engine"
)

func openRedis(context.Context, string) (engine.Engine, error) {
	return nil, leftOut("no_redis")
}

func examineRedis(context.Context, string, engine.ExamineOptions, func(engine.Finding)) error {
	return leftOut("no_redis")
}
