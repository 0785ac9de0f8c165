//go:build !no_zookeeper

package engines

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/zookeeper/zklock"
)

func openZooKeeper(ctx context.Context, rawURL string) (engine.Engine, error) {
	return zklock.Open(ctx, rawURL)
}

func examineZooKeeper(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return zklock.Examine(ctx, rawURL, o, found)
}
