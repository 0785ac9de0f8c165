package redissonlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
)

// nobody is a name that is never locked. Every Watch listens to its channel, so
// that a connection says that it stands before anybody waits.
const nobody = "leasehold:nobody"

// Watch implements [engine.Engine]. Of each name that a claim waits for it listens
// to Redisson's channel. A message there is a good moment to try.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	t := parts.NewTeller(changed)
	defer t.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	free := func(channel, _ string) { t.Notify(e.ears.On(channel)...) }
	shards := map[string]context.CancelFunc{}
	return e.ears.Listen(ctx, e.wire, e.channel(nobody), parts.Listener{
		Began:    func() { t.Notify(engine.Claim{}) },
		Notified: func(string) {},
		Free:     free,
		// On a Cluster Redisson tells of releases on shard channels since 3.22.0, and by
		// PUBLISH before.
		Tuned: func(more, less []string) {
			if !e.wire.Cluster() {
				return
			}
			for _, channel := range more {
				var shard context.Context
				shard, shards[channel] = context.WithCancel(ctx)
				e.shards.add(channel, 1)
				go func() {
					defer e.shards.add(channel, -1)
					e.listenShard(shard, channel, func() { free(channel, "") })
				}()
			}
			for _, channel := range less {
				shards[channel]()
				delete(shards, channel)
			}
		},
	})
}

// listenShard goes on until ctx ends, or until it is clear that nobody listens so: the
// server is older than 7.0. A subscription ends when its slot moves, too, and that is no
// end of Watch.
func (e *Engine) listenShard(ctx context.Context, channel string, free func()) {
	for ctx.Err() == nil {
		err := e.wire.ListenShard(ctx, channel, free, free)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, engine.ErrRefused) {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// listens reports whether a server may count this client among those who listen for a
// lock: on a Cluster only shard channels can be counted. It is until the server has
// answered that it does not any more. A call that is made in the moment before the
// subscription is sent, and arrives after it, takes this client for somebody who waits:
// that costs one turn.
func (e *Engine) listens(name string) bool {
	if e.wire.Cluster() {
		return e.shards.any(e.channel(name))
	}
	return e.ears.Listening(name, e.wire)
}

// counts are the subscriptions to each shard channel that stand, begin or end.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(channel string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	if c.of[channel] += n; c.of[channel] == 0 {
		delete(c.of, channel)
	}
}

func (c *counts) any(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[channel] > 0
}
