package competitors

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/bench/harness"
)

// ours is leasehold on whatever engine open makes.
func ours(name, about string, open func(context.Context, harness.Endpoint) (engine.Engine, error)) harness.Competitor {
	return harness.Competitor{
		Name:   name,
		Waits:  "the engine notifies it when it holds; the next waiter polls every second, the others every four",
		About:  about,
		Modes:  harness.ReadWrite | harness.Semaphore,
		Renews: true,
		Open: func(ctx context.Context, at harness.Endpoint) (harness.Locker, error) {
			eng, err := open(ctx, at)
			if err != nil {
				return nil, err
			}
			var counted *counting
			if at.Count {
				counted = &counting{Engine: eng}
				eng = counted
			}
			c, err := leasehold.New(eng, &leasehold.Options{TTL: at.TTL, NoLocalHandoff: at.NoLocalHandoff, IdleTimeout: at.IdleTimeout})
			if err != nil {
				return nil, errors.Join(err, eng.Close())
			}
			return &leaseholds{c, counted}, nil
		},
	}
}

type leaseholds struct {
	client  *leasehold.Client
	counted *counting
}

func unlocker(l *leasehold.Lease, err error) (harness.Unlock, error) {
	if err != nil {
		return nil, err
	}
	return l.Unlock, nil
}

func (l *leaseholds) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	return unlocker(l.client.Lock(ctx, name))
}

func (l *leaseholds) RLock(ctx context.Context, name string) (harness.Unlock, error) {
	return unlocker(l.client.RLock(ctx, name))
}

func (l *leaseholds) Acquire(ctx context.Context, name string, units, limit int32) (harness.Unlock, error) {
	return unlocker(l.client.Acquire(ctx, name, units, limit))
}

func (l *leaseholds) Remaining(ctx context.Context, name string) (time.Duration, error) {
	queue, err := l.client.Queue(ctx, name)
	if err != nil || len(queue.Claims) == 0 {
		return 0, err
	}
	return queue.Claims[0].TTL, nil
}

func (l *leaseholds) Close() error { return l.client.Close() }

// Calls is what the engine was asked, by method.
func (l *leaseholds) Calls() map[string]int64 {
	if l.counted == nil {
		return nil
	}
	return map[string]int64{
		"Join": l.counted.joins.Load(), "Renew": l.counted.renews.Load(), "Leave": l.counted.leaves.Load(),
		"other": l.counted.others.Load(),
	}
}

// counting is an engine that counts its calls.
type counting struct {
	engine.Engine
	joins, renews, leaves, others atomic.Int64
}

func (c *counting) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c.joins.Add(1)
	return c.Engine.Join(ctx, r)
}

func (c *counting) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	c.renews.Add(1)
	return c.Engine.Renew(ctx, rs)
}

func (c *counting) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	c.leaves.Add(1)
	return c.Engine.Leave(ctx, cs)
}

func (c *counting) Queue(ctx context.Context, name string) (engine.Queue, error) {
	c.others.Add(1)
	return c.Engine.Queue(ctx, name)
}

func (c *counting) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	c.others.Add(1)
	return c.Engine.Queues(ctx, prefix)
}
