package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/postgres/pglock"
	"leasehold/lab/bench/harness"
)

// Postgres is leasehold on PostgreSQL.
func Postgres() harness.Competitor {
	return ours(harness.Us, "engine pglock, opened by its URL, all defaults: TTL 30 s, renewed every third of it",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return pglock.Open(ctx, postgresURL(at))
		})
}

// postgresURL is where PostgreSQL is: the first address of the suite's.
func postgresURL(at harness.Endpoint) string {
	return "postgres://postgres@" + at.Addrs[0] + "/postgres?sslmode=disable"
}
