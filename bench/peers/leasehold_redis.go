package peers

import (
	"context"

	"github.com/redis/rueidis"

	"leasehold/bench/harness"
	"leasehold/engine"
	"leasehold/engine/redislock"
)

// Redis is leasehold on one Redis.
func Redis() harness.Peer {
	return ours(harness.Us, "engine redislock on a rueidis client with its defaults; TTL 30 s, renewed every third of it",
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: at.Addrs[:1]})
			if err != nil {
				return nil, err
			}
			eng, err := redislock.New(ctx, client, nil)
			if err != nil {
				client.Close()
				return nil, err
			}
			return closing{eng, client}, nil
		})
}

// closing is an engine that closes the client made for it.
type closing struct {
	engine.Engine
	client rueidis.Client
}

func (c closing) Close() error {
	defer c.client.Close()
	return c.Engine.Close()
}
