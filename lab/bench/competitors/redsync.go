package competitors

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"

	"leasehold/lab/bench/harness"
)

// Pick chooses a competitor's masters from the addresses of a suite.
type Pick func(addrs []string) []string

// Redsync is redsync v4 on the masters that pick finds.
func Redsync(name, about string, pick Pick) harness.Competitor {
	return harness.Competitor{
		Name:  name,
		Waits: "asks again after a random 50 to 250 ms, at most 32 times; then fails and is called again",
		About: "v4 with its go-redis v9 pool; expiry 8 s by default; never renews by itself. Each attempt that fails also sends a release" + about,
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			r := &redsyncs{ttl: at.TTL}
			var pools []redis.Pool
			for _, addr := range pick(at.Addrs) {
				c := goredis9.NewClient(&goredis9.Options{Addr: addr})
				r.clients = append(r.clients, c)
				pools = append(pools, goredis.NewPool(c))
			}
			r.redsync = redsync.New(pools...)
			return r, nil
		},
	}
}

type redsyncs struct {
	clients []*goredis9.Client
	redsync *redsync.Redsync
	ttl     time.Duration
}

func (r *redsyncs) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	var options []redsync.Option
	if r.ttl > 0 {
		options = append(options, redsync.WithExpiry(r.ttl))
	}
	m := r.redsync.NewMutex(name, options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ok, err := m.UnlockContext(context.Background())
		if err == nil && !ok {
			err = errors.New("redsync: unlock failed")
		}
		return err
	}, nil
}

func (r *redsyncs) Remaining(ctx context.Context, name string) (time.Duration, error) {
	return r.clients[0].PTTL(ctx, name).Result()
}

func (r *redsyncs) Close() error {
	var err error
	for _, c := range r.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}
