//go:build no_postgres

package engines

import (
	"context"

	"leasehold/engine"
)

func openPostgres(context.Context, string) (engine.Engine, error) {
	return nil, leftOut("no_postgres")
}

func examinePostgres(context.Context, string, engine.ExamineOptions, func(engine.Finding)) error {
	return leftOut("no_postgres")
}
