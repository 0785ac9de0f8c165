package competitors

import (
	"context"
	"strings"

	"leasehold/engine"
	"leasehold/engine/etcd/etcdlock"
	"leasehold/lab/bench/harness"
)

// Etcd is leasehold on etcd.
func Etcd() harness.Competitor {
	return ours(harness.Us, "engine etcdlock, opened by its URL, all defaults: TTL 30 s, etcd leases of 36 s",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return etcdlock.Open(ctx, "etcd://"+strings.Join(at.Addrs, ","))
		})
}
