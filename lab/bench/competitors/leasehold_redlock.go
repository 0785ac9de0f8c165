package competitors

import (
	"context"
	"errors"
	"strings"

	"leasehold/engine"
	"leasehold/engine/redis/redlock"
	"leasehold/lab/bench/harness"
)

// Redlock is leasehold on several masters, whose addresses pick finds.
func Redlock(name, about string, pick Pick) harness.Competitor {
	p := ours(name, "engine redlock, opened by its URL, max-ttl=10s and all else by default: TTL 10 s, renewed every third of it"+about,
		func(ctx context.Context, at harness.Endpoint) (engine.Engine, error) {
			return redlock.Open(ctx, "redlock://"+strings.Join(pick(at.Addrs), ",")+"?max-ttl=10s")
		})
	p.Modes = 0
	p.Waits = "the masters notify one waiter at a time when the lock is free; it polls every second at the latest"
	// A master that has just started has no vote: the first lock waits for that.
	p.Prepare = func(ctx context.Context, at harness.Endpoint, _ []string) error {
		l, err := p.Open(ctx, at)
		if err != nil {
			return err
		}
		unlock, err := l.Lock(ctx, "bench:voting")
		if err == nil {
			err = unlock()
		}
		return errors.Join(err, l.Close())
	}
	return p
}
