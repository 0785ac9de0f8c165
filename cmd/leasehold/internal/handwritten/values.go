package handwritten

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// JSONCount keeps the owner and a count for re-entry as JSON in one key, which it reads,
// changes and writes back.
//
// Wrong on purpose: two clients that read at the same time both write, and both hold.
type JSONCount struct {
	Redis  rueidis.Client
	Key    string
	Owner  string
	Expiry time.Duration
}

type counted struct {
	Owner string
	Count int
}

func (l *JSONCount) Lock(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		now, err := l.read(ctx)
		if err != nil || now.Count > 0 && now.Owner != l.Owner {
			return false, err
		}
		return true, l.write(ctx, counted{l.Owner, now.Count + 1})
	})
}

func (l *JSONCount) Unlock(ctx context.Context) error {
	now, err := l.read(ctx)
	if err != nil || now.Owner != l.Owner {
		return err
	}
	if now.Count > 1 {
		return l.write(ctx, counted{l.Owner, now.Count - 1})
	}
	return l.Redis.Do(ctx, l.Redis.B().Del().Key(l.Key).Build()).Error()
}

func (l *JSONCount) read(ctx context.Context) (c counted, err error) {
	err = l.Redis.Do(ctx, l.Redis.B().Get().Key(l.Key).Build()).DecodeJSON(&c)
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return c, err
}

func (l *JSONCount) write(ctx context.Context, c counted) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return l.Redis.Do(ctx, l.Redis.B().Set().Key(l.Key).Value(string(text)).Px(l.Expiry).Build()).Error()
}

// GetSet keeps the moment at which the lock ends as the value, by the clock of the
// client (or of a time server), and takes a lock whose moment has passed by GETSET.
//
// Wrong on purpose: a client whose clock is ahead takes the lock from a living holder.
type GetSet struct {
	Redis  rueidis.Client
	Key    string
	Expiry time.Duration
	Now    func() time.Time // the clock of the client

	ends int64
}

func (l *GetSet) Lock(ctx context.Context) error {
	b := l.Redis.B()
	return poll(ctx, func() (bool, error) {
		l.ends = l.Now().Add(l.Expiry).UnixMilli()
		mine := strconv.FormatInt(l.ends, 10)
		if free, err := l.Redis.Do(ctx, b.Setnx().Key(l.Key).Value(mine).Build()).AsBool(); free || err != nil {
			return free, err
		}
		theirs, err := l.Redis.Do(ctx, b.Get().Key(l.Key).Build()).AsInt64()
		if err != nil || theirs >= l.Now().UnixMilli() {
			return false, ignoreNil(err)
		}
		before, err := l.Redis.Do(ctx, b.Getset().Key(l.Key).Value(mine).Build()).AsInt64()
		return err == nil && before == theirs, ignoreNil(err)
	})
}

func (l *GetSet) Unlock(ctx context.Context) error {
	if l.ends < l.Now().UnixMilli() {
		return nil // it has passed: the key may be another's
	}
	return l.Redis.Do(ctx, l.Redis.B().Del().Key(l.Key).Build()).Error()
}

// ignoreNil is for keys that went in between: the next try finds out.
func ignoreNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
