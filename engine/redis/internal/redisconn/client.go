// Package redisconn connects the engines of this module to Redis: calls of scripts,
// subscriptions, the kind of the server, and its URLs. It wraps github.com/redis/rueidis,
// which does connections, pipelining, pools and reconnecting. The package knows calls and
// not claims; the engines know claims and not connections.
//
// It adds four rules. A call returns when its context ends, even if the library still
// works ([Client.Call]). A call is sent again only if its connection broke, and its answer
// then says so ([Answer]). A write that replicas must have is not believed before they
// acknowledged it ([Client.CallSynced]). Where Dial was given one address, a connection to a
// server that has become a replica is ended: the address may lead to its successor by now.
package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// Client is one client of a Redis: a server, Sentinel or Cluster.
type Client struct {
	redis    rueidis.Client  // of a lone connection: what Dial made
	own      bool            // Close closes it
	life     context.Context // ends at Close
	end      context.CancelFunc
	failover atomic.Bool
	syncs    atomic.Bool // it makes synced calls
	lone     *lone       // nil: calls have several connections, or another's

	restarts *restarts // nil: no script is guarded

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // what outlives the call that began it
}

// New is a Client on the caller's own, who closes it afterwards.
func New(redis rueidis.Client) *Client {
	c := &Client{redis: redis}
	c.life, c.end = context.WithCancel(context.WithValue(context.Background(), calling{}, true))
	return c
}

// Dial connects to what a URL names.
func Dial(ctx context.Context, t *Target) (*Client, error) {
	c := New(nil)
	c.failover.Store(t.Failover)
	by, err := c.connect(ctx, t.redis)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = t.unreachable(err)
	}
	if err != nil {
		c.end()
		return nil, fmt.Errorf("%s: %w", t.address(), err)
	}
	c.redis, c.own = by.redis, true
	if t.redis.ForceSingleClient {
		c.lone = &lone{options: t.redis, bound: renewal, link: by, apart: settled}
	}
	if t.cluster && !c.Cluster() {
		c.Close()
		return nil, fmt.Errorf("%s is not part of a Cluster: use redis://", t.address())
	}
	return c, nil
}

// connect makes a client of the library. It returns as await does.
func (c *Client) connect(ctx context.Context, o rueidis.ClientOption) (*link, error) {
	by := &link{}
	if o.ForceSingleClient {
		by.remember(&o)
	}
	type dialed struct {
		redis rueidis.Client
		err   error
	}
	d, err := await(ctx, c, func() (d dialed) {
		// The library believes a length that whatever listens there says. Here its
		// panic is an answer: nobody has this client yet.
		defer func() {
			if p := recover(); p != nil {
				d = dialed{err: fmt.Errorf("%w: %v", errUnreadable, p)}
			}
		}()
		redis, err := rueidis.NewClient(o)
		if err != nil && redis != nil {
			redis.Close()
		}
		return dialed{redis, err}
	}, func(d dialed) {
		if d.err == nil {
			d.redis.Close()
		}
	})
	by.redis = d.redis
	return by, cmp.Or(err, d.err)
}

// Cluster reports whether names are spread over servers, so that the keys of
// one call must be of one slot.
func (c *Client) Cluster() bool { return c.redis.Mode() == rueidis.ClientModeCluster }

// FailsOver reports whether another server may take the place of this one: by Sentinel
// or Cluster, behind one address where the server had replicas when the client was
// opened or would not say, or where the caller says so (see MayFailOver).
func (c *Client) FailsOver() bool { return c.elected() || c.failover.Load() }

// elected: the library finds the server that has taken the place of another.
func (c *Client) elected() bool { return c.redis.Mode() != rueidis.ClientModeStandalone }

// MayFailOver records that another server may take the place of this one, at the same
// address.
func (c *Client) MayFailOver() { c.failover.Store(true) }

// longest bounds what the library does for one call. It ends earlier when a
// connection is found dead; but a Cluster that moves a key around may keep it
// busy for as long as it is let.
const longest = 10 * time.Second

// bounded is the context of what the library does for one call: not the
// caller's, who may go while others share what is being made for it.
func (c *Client) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.life, longest)
}

// await returns what f does, or an error as soon as ctx ends or the client is
// closed. The library cannot be asked for that: it dials, and reads a lone
// caller's answer, without a look at whether the context was cancelled. Nobody
// waits for f then, and drop, if not nil, gets what it made.
func await[T any](ctx context.Context, c *Client, f func() T, drop func(T)) (v T, err error) {
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case c.life.Err() != nil:
		return v, engine.ErrClosed
	}
	got := make(chan T, 1)
	c.spawn(func() { got <- f() })
	select {
	case v = <-got:
		return v, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.life.Done():
		err = engine.ErrClosed
	}
	if drop != nil {
		c.spawn(func() { drop(<-got) })
	}
	return v, err
}

// spawn runs what may outlive the call that began it. Close waits for it, but
// not for what begins later.
func (c *Client) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go f()
		return
	}
	c.running.Go(f)
}

// closeBound is how long Close waits for what the library still does for calls
// that nobody waits for.
const closeBound = 2 * time.Second

// Close ends it, and every call that is under way.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	ended := make(chan struct{})
	go func() {
		if c.own {
			c.redis.Close() // waits for a server that does not answer until its pings fail
		}
		if c.lone != nil {
			c.lone.close()
		}
		c.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeBound):
	}
}
