package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/mysql/mysqllock"
	"leasehold/lab/bench/harness"
)

// MySQL is leasehold on MySQL and MariaDB.
func MySQL() harness.Competitor {
	p := ours(harness.Us, "engine mysqllock, opened by its URL, all defaults: TTL 30 s, renewed every third of it",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return mysqllock.Open(ctx, "mysql://root@"+at.Addrs[0]+"/test")
		})
	p.Waits = "doorbell: one connection that waits in the server, which the releaser ends; polls every third of a second"
	return p
}
