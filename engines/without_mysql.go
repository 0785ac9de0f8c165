//go:build no_mysql

package engines

import (
	"context"

	"leasehold/engine"
)

func openMySQL(context.Context, string) (engine.Engine, error) {
	return nil, leftOut("no_mysql")
}

func examineMySQL(context.Context, string, engine.ExamineOptions, func(engine.Finding)) error {
	return leftOut("no_mysql")
}
