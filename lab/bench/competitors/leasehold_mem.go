package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/lab/bench/harness"
)

// Memory is leasehold inside one process: what is left is the core.
func Memory() harness.Competitor {
	return ours("leasehold mem", "engine memlock: one process, nothing outside of it",
		func(context.Context, harness.Endpoint) (engine.Engine, error) { return memlock.New(), nil })
}
