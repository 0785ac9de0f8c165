package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// Publish sends a message to the subscribers of a channel.
func (c *Client) Publish(ctx context.Context, channel, message string) error {
	return Explain(c.do(ctx, c.redis.B().Publish().Channel(channel).Message(message).Build()).Error(), channel)
}

// Subscription is a connection that listens. It ends with the connection: who
// wants to go on listening begins another. Whoever waits for its end does so by a
// context that ends before the client is closed.
type Subscription struct {
	client *Client
	conn   rueidis.DedicatedClient
	lost   <-chan error

	mu    sync.Mutex
	ended bool
}

// Listen makes a connection that listens to no channel yet. It calls heard for
// every message, and began when a channel is subscribed to, both in the
// goroutine that reads, one at a time, and never after Close has returned. They
// do not block.
func (c *Client) Listen(ctx context.Context, began func(channel string), received func(channel, message string)) (*Subscription, error) {
	conn, err := await(ctx, c, c.forSubscription, rueidis.DedicatedClient.Close)
	if err != nil {
		return nil, err
	}
	s := &Subscription{client: c, conn: conn}
	s.lost = conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { s.unlessEnded(func() { received(m.Channel, m.Message) }) },
		OnSubscription: func(m rueidis.PubSubSubscription) {
			if m.Kind == "subscribe" {
				s.unlessEnded(func() { began(m.Channel) })
			}
		},
	})
	return s, nil
}

// forSubscription is a connection for that, which closing is all there is to do with
// afterwards. It is not the one that synced calls use in turns: a server at its maxclients
// gives them no other, and leases would be lost.
func (c *Client) forSubscription() rueidis.DedicatedClient {
	if c.syncs.Load() {
		_, release := c.redis.Dedicate() // theirs, or what they will use, if that is under way
		defer release()
	}
	conn, _ := c.redis.Dedicate()
	return conn
}

func (s *Subscription) unlessEnded(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		f()
	}
}

// Subscribe begins to listen to channels. An error that is Redis's own says
// that this user may not.
func (s *Subscription) Subscribe(ctx context.Context, channels ...string) error {
	return s.do(ctx, s.conn.B().Subscribe().Channel(channels...).Build(), channels)
}

// Unsubscribe ends listening to channels.
func (s *Subscription) Unsubscribe(ctx context.Context, channels ...string) error {
	return s.do(ctx, s.conn.B().Unsubscribe().Channel(channels...).Build(), channels)
}

func (s *Subscription) do(ctx context.Context, cmd rueidis.Completed, channels []string) error {
	r, err := await(ctx, s.client, func() rueidis.RedisResult {
		ctx, cancel := s.client.bounded()
		defer cancel()
		return s.conn.Do(ctx, cmd)
	}, nil)
	if err != nil {
		return err
	}
	return Explain(r.Error(), channels[0])
}

// ListenShard listens to a shard channel of a Cluster, where its slot is. It returns
// when ctx ends, the connection is lost, or the slot moves: who wants to go on
// listening begins again. began and heard may be called at the same time, and do not
// block; began may come twice, when the library has found the slot elsewhere.
//
// Errors: [errors.ErrUnsupported] from a server older than 7.0, which knows no such
// channels; what Redis itself says, if this user may not.
func (c *Client) ListenShard(ctx context.Context, channel string, began, received func()) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			began()
		}
	})
	// The connection is the one of all calls to that node, and outlives this. Two who
	// listen to one channel in turns may end each other's so: then the other returns.
	ctx = rueidis.WithOnReceiveReturnHook(ctx, func(err error, conn rueidis.CommandClient) error {
		ctx, cancel := c.bounded()
		defer cancel()
		conn.Do(ctx, conn.B().Sunsubscribe().Channel(channel).Build())
		return err
	})
	err := c.redis.Receive(ctx, c.redis.B().Ssubscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { received() })
	if re, ok := rueidis.IsRedisErr(err); ok && strings.Contains(re.Error(), "unknown command") {
		return fmt.Errorf("redis: %w: %w", errors.ErrUnsupported, err)
	}
	return Explain(err, channel)
}

// PublishShard sends a message to a shard channel. A server older than 7.0, which knows
// no such channels, has nobody to tell.
func (c *Client) PublishShard(ctx context.Context, channel, message string) error {
	err := c.do(ctx, c.redis.B().Spublish().Channel(channel).Message(message).Build()).Error()
	if re, ok := rueidis.IsRedisErr(err); ok && strings.Contains(re.Error(), "unknown command") {
		return nil
	}
	return Explain(err, channel)
}

// Lost tells once why the connection ended.
func (s *Subscription) Lost() <-chan error { return s.lost }

// Wait returns when the connection has ended, or ctx has, and why.
func (s *Subscription) Wait(ctx context.Context) error {
	select {
	case err := <-s.lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends it.
func (s *Subscription) Close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.client.spawn(s.conn.Close) // it may wait for the server; the caller must not
}
