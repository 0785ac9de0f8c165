package redissonlock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// nobody is a name that is never locked. Every Watch listens to its channel, so
// that a connection says that it stands before anybody waits.
const nobody = "leasehold:nobody"

// pruneEvery is how often channels are looked at that nobody waits on any more.
// Whoever holds takes those who listen for waiting, and gives up turns for them.
const pruneEvery = time.Second

// Watch implements [engine.Engine]. Of each name that a claim waits for it listens
// to Redisson's channel, from soon after the first wait until a second or two after
// the last. A message there is a good moment to try.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return redisconn.Again(ctx, e.life.Done(), e.closed.Load, func() error { return e.subscribe(ctx, changed) })
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, changed func(engine.Claim)) error {
	t := &teller{waiters: &e.waiters, changed: changed}
	defer t.end()
	shards := shards{engine: e, teller: t, ends: map[string]context.CancelFunc{}}
	defer shards.end()
	// Whoever has asked before a subscription stood may have missed a release: they
	// are told when it does, and all are when the connection does.
	base := e.channel(nobody)
	s, err := e.wire.Listen(ctx, func(channel string) {
		if channel == base {
			t.all()
		} else {
			t.notify(channel)
		}
	}, func(channel, _ string) { t.notify(channel) })
	if err != nil {
		return err
	}
	defer s.Close()
	names := e.waiters.wanted(true)
	shards.listen(ctx, names)
	if err := s.Subscribe(ctx, append(names, base)...); err != nil {
		return err
	}
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		select {
		case <-e.waiters.more:
			if names := e.waiters.wanted(false); len(names) > 0 {
				shards.listen(ctx, names)
				if err := s.Subscribe(ctx, names...); err != nil {
					return err
				}
			}
		case <-prune.C:
			if names := e.waiters.prune(); len(names) > 0 {
				shards.leave(names)
				if err := s.Unsubscribe(ctx, names...); err != nil {
					return err
				}
			}
		case err := <-s.Lost():
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-e.life.Done():
			return engine.ErrClosed
		}
	}
}

// shards are the shard channels that are listened to: on a Cluster Redisson tells of
// releases there since 3.22.0, and by PUBLISH before.
type shards struct {
	engine *Engine
	teller *teller
	ends   map[string]context.CancelFunc
}

func (s *shards) listen(ctx context.Context, channels []string) {
	if !s.engine.wire.Cluster() {
		return
	}
	for _, channel := range channels {
		ctx, cancel := context.WithCancel(ctx)
		s.ends[channel] = cancel
		go s.listenTo(ctx, channel)
	}
}

// listenTo goes on until ctx ends, or until it is clear that nobody listens so: the
// server is older than 7.0. A subscription ends when its slot moves, too.
func (s *shards) listenTo(ctx context.Context, channel string) {
	notify := func() { s.teller.notify(channel) }
	for ctx.Err() == nil {
		err := s.engine.wire.ListenShard(ctx, channel, notify, notify)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, engine.ErrRefused) {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (s *shards) leave(channels []string) {
	for _, channel := range channels {
		if end := s.ends[channel]; end != nil {
			end()
			delete(s.ends, channel)
		}
	}
}

func (s *shards) end() { s.leave(slices.Collect(maps.Keys(s.ends))) }

// teller says what changed, from one goroutine at a time, and nothing once it has
// ended.
type teller struct {
	waiters *waiters
	changed func(engine.Claim)

	mu    sync.Mutex
	ended bool
}

// tell says that whoever waits on a channel should try.
func (t *teller) notify(channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	for _, c := range t.waiters.on(channel) {
		t.changed(c)
	}
}

// all says that everybody should look.
func (t *teller) all() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.changed(engine.Claim{})
	}
}

func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}
