package competitors

import (
	"context"
	"strings"

	"leasehold/engine"
	"leasehold/engine/etcd/etcdlock"
	"leasehold/lab/bench/harness"
)

// Etcd is leasehold on etcd. Its TTL is the engine's, so the load's goes into the
// URL.
func Etcd() harness.Competitor {
	return ours(harness.Us, "engine etcdlock, opened by its URL, all defaults: TTL 30 s, etcd leases of 36 s",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			url := "etcd://" + strings.Join(at.Addrs, ",")
			if at.TTL > 0 {
				url += "?ttl=" + at.TTL.String()
			}
			return etcdlock.Open(ctx, url)
		})
}
