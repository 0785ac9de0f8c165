package leasehold

import (
	"context"
	"errors"
	"sync"
)

// Locker is name as a sync.Locker, for code that takes one. A sync.Locker
// cannot return an error, so it panics with one: Lock when the name could not
// be obtained (ctx bounds the waiting), Unlock when the lease was lost before,
// since then exclusion was not kept. Prefer Lock and Do wherever you can.
//
// One Locker serves any number of goroutines; like a sync.Mutex it is not
// re-entrant.
func (c *Client) Locker(ctx context.Context, name string) sync.Locker {
	return &locker{client: c, ctx: ctx, name: name}
}

type locker struct {
	client *Client
	ctx    context.Context // of every waiting: a sync.Locker has no other place for it
	name   string

	lease *Lease // guarded by the lock itself
}

func (l *locker) Lock() {
	lease, err := l.client.Lock(l.ctx, l.name)
	if err != nil {
		panic(err)
	}
	l.lease = lease
}

func (l *locker) Unlock() {
	lease := l.lease
	if lease == nil {
		panic(wrap("unlock", l.name, errors.New("not locked")))
	}
	l.lease = nil
	if err := lease.Unlock(); err != nil && !errors.Is(err, ErrUnknown) {
		panic(err)
	}
}
