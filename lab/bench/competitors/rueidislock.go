package competitors

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"leasehold/lab/bench/harness"
)

// Rueidislock is rueidislock as its README sets it up for one Redis.
func Rueidislock() harness.Competitor {
	return harness.Competitor{
		Name:   "rueidislock",
		Waits:  "client-side caching notifies all waiters when the key changes, and all ask again",
		About:  "KeyMajority 1 and NoLoopTracking (README's choice for one Redis; without it an idle held lock renews in a busy loop); validity 5 s, renewed every half of it",
		Renews: true,
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption:   rueidis.ClientOption{InitAddress: at.Addrs[:1]},
				KeyMajority:    1,
				NoLoopTracking: true,
				KeyValidity:    at.TTL, // 0: its default
			})
			if err != nil {
				return nil, err
			}
			return &rueidislocks{l}, nil
		},
	}
}

type rueidislocks struct{ locker rueidislock.Locker }

func (l *rueidislocks) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	// The lock's context is made from the caller's: its own must not be cut
	// short with the waiting, so a wait is bounded by ctx itself.
	_, release, err := l.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error {
		release()
		return nil
	}, nil
}

func (l *rueidislocks) Remaining(ctx context.Context, name string) (time.Duration, error) {
	c := l.locker.Client()
	ms, err := c.Do(ctx, c.B().Pttl().Key("rueidislock:0:"+name).Build()).AsInt64()
	return time.Duration(ms) * time.Millisecond, err
}

func (l *rueidislocks) Close() error {
	l.locker.Close()
	return nil
}
