//go:build !no_mysql

package engines

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/mysql/mysqllock"
)

func openMySQL(ctx context.Context, rawURL string) (engine.Engine, error) {
	return mysqllock.Open(ctx, rawURL)
}

func examineMySQL(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return mysqllock.Examine(ctx, rawURL, o, found)
}
