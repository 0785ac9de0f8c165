package competitors

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/filelock"
	"leasehold/lab/bench/harness"
)

// File is leasehold on a directory, the embedded default.
func File() harness.Competitor {
	return ours(harness.Us, "engine filelock: a directory, the processes of one machine, no server",
		func(_ context.Context, at harness.Endpoint) (engine.Engine, error) {
			eng, err := filelock.New(at.Dir, nil)
			if err != nil {
				return nil, err // not eng: a nil *Engine is not a nil Engine
			}
			return eng, nil
		})
}
