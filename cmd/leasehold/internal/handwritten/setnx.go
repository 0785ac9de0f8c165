package handwritten

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// SetNX is the first lock of most articles: SETNX takes it, DEL gives it back.
//
// Wrong on purpose: the key of a holder that dies stays for ever.
type SetNX struct {
	Redis rueidis.Client
	Key   string
}

func (l *SetNX) Lock(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		return l.Redis.Do(ctx, l.Redis.B().Setnx().Key(l.Key).Value("1").Build()).AsBool()
	})
}

func (l *SetNX) Unlock(ctx context.Context) error {
	return l.Redis.Do(ctx, l.Redis.B().Del().Key(l.Key).Build()).Error()
}

// SetNXThenExpire is SetNX with an expiry in a second command.
//
// Wrong on purpose: a process that dies between the two leaves the key for ever.
type SetNXThenExpire struct {
	SetNX
	Expiry time.Duration
}

func (l *SetNXThenExpire) Lock(ctx context.Context) error {
	if err := l.SetNX.Lock(ctx); err != nil {
		return err
	}
	return l.Redis.Do(ctx, l.Redis.B().Pexpire().Key(l.Key).Milliseconds(l.Expiry.Milliseconds()).Build()).Error()
}

// MultiExec puts SETNX and PEXPIRE into one transaction, in place of a script.
//
// Wrong on purpose: a transaction has no condition. PEXPIRE is carried out for the
// losers too, so each try of a waiter prolongs the key of a holder that is dead.
type MultiExec struct {
	SetNX
	Expiry time.Duration
}

func (l *MultiExec) Lock(ctx context.Context) error {
	b := l.Redis.B()
	return poll(ctx, func() (bool, error) {
		answers := l.Redis.DoMulti(ctx,
			b.Multi().Build(),
			b.Setnx().Key(l.Key).Value("1").Build(),
			b.Pexpire().Key(l.Key).Milliseconds(l.Expiry.Milliseconds()).Build(),
			b.Exec().Build())
		both, err := answers[3].ToArray()
		if err != nil {
			return false, err
		}
		return both[0].AsBool()
	})
}
