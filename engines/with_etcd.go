//go:build !no_etcd

package engines

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/etcd/etcdlock"
)

func openEtcd(ctx context.Context, rawURL string) (engine.Engine, error) {
	return etcdlock.Open(ctx, rawURL)
}

func examineEtcd(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return etcdlock.Examine(ctx, rawURL, o, found)
}
