//go:build !no_postgres

package engines

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/postgres/pglock"
)

func openPostgres(ctx context.Context, rawURL string) (engine.Engine, error) {
	return pglock.Open(ctx, rawURL)
}

func examinePostgres(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return pglock.Examine(ctx, rawURL, o, found)
}
