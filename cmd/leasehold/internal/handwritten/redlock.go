package handwritten

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// Redlock is the algorithm of that name, as it is described for several masters: SET NX
// PX on each of them, and a majority within the expiry holds.
//
// Wrong on purpose: it takes a master that restarted empty for one that nobody locked.
type Redlock struct {
	Masters []rueidis.ClientOption
	Key     string
	Owner   string
	Expiry  time.Duration
}

func (l *Redlock) Lock(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		began, taken := time.Now(), 0
		l.each(func(one SetPX) {
			err := one.Redis.Do(ctx, one.Redis.B().Set().Key(l.Key).Value(l.Owner).Nx().Px(l.Expiry).Build()).Error()
			if err == nil {
				taken++
			}
		})
		if taken > len(l.Masters)/2 && time.Since(began) < l.Expiry {
			return true, nil
		}
		return false, l.Unlock(ctx)
	})
}

func (l *Redlock) Unlock(ctx context.Context) error {
	l.each(func(one SetPX) { one.Unlock(ctx) }) // a master that is away has the expiry
	return nil
}

// each does it on every master that can be reached.
func (l *Redlock) each(do func(SetPX)) {
	for _, master := range l.Masters {
		client, err := rueidis.NewClient(master)
		if err != nil {
			continue
		}
		do(SetPX{Redis: client, Key: l.Key, Owner: l.Owner, Expiry: l.Expiry})
		client.Close()
	}
}
