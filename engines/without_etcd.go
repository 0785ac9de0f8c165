//go:build no_etcd

package engines

import (
	"context"

	"leasehold/engine"
)

func openEtcd(context.Context, string) (engine.Engine, error) {
	return nil, leftOut("no_etcd")
}

func examineEtcd(context.Context, string, engine.ExamineOptions, func(engine.Finding)) error {
	return leftOut("no_etcd")
}
