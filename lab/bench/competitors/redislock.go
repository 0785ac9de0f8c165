package competitors

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"leasehold/lab/bench/harness"
)

// Redislock is bsm/redislock. It has no default for waiting (it does not wait)
// and none for the TTL: the pause is that of its documented example.
func Redislock() harness.Competitor {
	return harness.Competitor{
		Name:  "redislock",
		Waits: "asks again every 100 ms (LinearBackoff of its documented example), until the caller's context ends",
		About: "bsm/redislock v0.9 on go-redis v9; TTL 30 s (it has no default); never renews by itself",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			c := redis.NewClient(&redis.Options{Addr: at.Addrs[0]})
			l := &redislocks{redis: c, locker: redislock.New(c), ttl: at.TTL}
			if l.ttl == 0 {
				l.ttl = 30 * time.Second
			}
			return l, nil
		},
	}
}

type redislocks struct {
	redis  *redis.Client
	locker *redislock.Client
	ttl    time.Duration
}

func (l *redislocks) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	// Without a deadline Obtain would give up after the TTL.
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	lock, err := l.locker.Obtain(ctx, name, l.ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(context.Background()) }, nil
}

func (l *redislocks) Remaining(ctx context.Context, name string) (time.Duration, error) {
	return l.redis.PTTL(ctx, name).Result()
}

func (l *redislocks) Close() error { return l.redis.Close() }
