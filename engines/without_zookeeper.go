//go:build no_zookeeper

package engines

import (
	"context"

	"leasehold/engine"
)

func openZooKeeper(context.Context, string) (engine.Engine, error) {
	return nil, leftOut("no_zookeeper")
}

func examineZooKeeper(context.Context, string, engine.ExamineOptions, func(engine.Finding)) error {
	return leftOut("no_zookeeper")
}
