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
// re-entrant, whatever LockOptions.Reentrant says: where ctx holds the name, Lock
// panics with ErrReentry.
func (c *Client) Locker(ctx context.Context, name string) sync.Locker {
	o := c.lock
	o.Reentrant = false
	return &locker{client: &Client{core: c.core, lock: o}, ctx: ctx, name: name, turn: make(chan struct{}, 1)}
}

type locker struct {
	client *Client
	ctx    context.Context // of every waiting: a sync.Locker has no other place for it
	name   string

	turn  chan struct{} // capacity 1: in it from the end of Lock to the end of Unlock
	lease *Lease        // of whose turn it is
}

// Lock obtains the lease first and the turn then: the lease is handed off as
// always, and one whose predecessor lost its own waits until that one has
// unlocked, so that each Unlock ends the lease of its own Lock.
func (l *locker) Lock() {
	lease, err := l.client.Lock(l.ctx, l.name)
	if err != nil {
		panic(err)
	}
	select {
	case l.turn <- struct{}{}:
	case <-l.ctx.Done():
		panic(errors.Join(wrap("lock", l.name, context.Cause(l.ctx)), lease.Unlock()))
	}
	l.lease = lease
}

func (l *locker) Unlock() {
	lease := l.lease
	if lease == nil {
		panic(wrap("unlock", l.name, errors.New("not locked")))
	}
	l.lease = nil
	defer func() { <-l.turn }()
	if err := lease.Unlock(); err != nil && !errors.Is(err, ErrUnknown) {
		panic(err)
	}
}
