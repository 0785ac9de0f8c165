package peers

import (
	"context"
	"errors"

	"leasehold/bench/harness"
	"leasehold/engine"
)

// File is leasehold on a directory.
func File() harness.Peer {
	return ours(harness.Us, "engine filelock", func(context.Context, harness.Endpoint) (engine.Engine, error) {
		return nil, errors.New("not yet")
	})
}

// Redis is leasehold on one Redis.
func Redis() harness.Peer {
	return ours(harness.Us, "engine redislock", func(context.Context, harness.Endpoint) (engine.Engine, error) {
		return nil, errors.New("not yet")
	})
}
