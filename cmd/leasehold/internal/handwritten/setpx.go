package handwritten

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// SetPX takes the lock by SET NX PX with a value of its own, and gives it back by a
// script that compares the value: the lock of the Redis documentation for one server.
//
// Wrong on purpose: nobody renews the key, and nobody tells the holder that it expired.
type SetPX struct {
	Redis  rueidis.Client
	Key    string
	Owner  string
	Expiry time.Duration
}

func (l *SetPX) Lock(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		err := l.Redis.Do(ctx, l.Redis.B().Set().Key(l.Key).Value(l.Owner).Nx().Px(l.Expiry).Build()).Error()
		if rueidis.IsRedisNil(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func (l *SetPX) Unlock(ctx context.Context) error {
	const script = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`
	return l.Redis.Do(ctx, l.Redis.B().Eval().Script(script).Numkeys(1).Key(l.Key).Arg(l.Owner).Build()).Error()
}

// SetPXDel is SetPX released by DEL.
//
// Wrong on purpose: a late holder deletes the key of the next one.
type SetPXDel struct{ SetPX }

func (l *SetPXDel) Unlock(ctx context.Context) error {
	return l.Redis.Do(ctx, l.Redis.B().Del().Key(l.Key).Build()).Error()
}

// SetPXGetDel is SetPX released by GET, a comparison in the client, and DEL.
//
// Wrong on purpose: the key may expire, and be taken by another, between GET and DEL.
type SetPXGetDel struct{ SetPX }

func (l *SetPXGetDel) Unlock(ctx context.Context) error {
	owner, err := l.Redis.Do(ctx, l.Redis.B().Get().Key(l.Key).Build()).ToString()
	if err != nil || owner != l.Owner {
		return err
	}
	return l.Redis.Do(ctx, l.Redis.B().Del().Key(l.Key).Build()).Error()
}
