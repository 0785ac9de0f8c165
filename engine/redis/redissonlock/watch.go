package redissonlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"leasehold/engine"
)

// nobody is a name that is never locked. Every Watch listens to its channel, so
// that a connection says that it stands before anybody waits.
const nobody = "leasehold:nobody"

// pruneEvery is how often channels are looked at that nobody waits on any more.
const pruneEvery = 5 * time.Second

// Watch implements [engine.Engine]. Of each name that a claim waits for it listens
// to Redisson's channel, from soon after the first wait until some seconds after
// the last. A message there is a good moment to try.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	const shortest, longest = 20 * time.Millisecond, time.Second
	pause := shortest
	for {
		began := time.Now()
		err := e.subscribe(ctx, changed)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.closed.Load():
			return engine.ErrClosed
		case errors.Is(err, engine.ErrRefused):
			return err
		}
		if time.Since(began) > longest {
			pause = shortest
		}
		// Spread over half the pause, so that the clients of a Redis that
		// restarts do not all come at once.
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-e.life.Done():
		}
		timer.Stop()
		pause = min(2*pause, longest)
	}
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, changed func(engine.Claim)) error {
	t := teller{waiters: &e.waiters, changed: changed}
	defer t.end()
	// Whoever has asked before a subscription stood may have missed a release: they
	// are told when it does, and all are when the connection does.
	base := e.channel(nobody)
	s, err := e.wire.Listen(ctx, func(channel string) {
		if channel == base {
			t.all()
		} else {
			t.tell(channel)
		}
	}, func(channel, _ string) { t.tell(channel) })
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(ctx, append(e.waiters.wanted(true), base)...); err != nil {
		return err
	}
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		select {
		case <-e.waiters.more:
			if names := e.waiters.wanted(false); len(names) > 0 {
				if err := s.Subscribe(ctx, names...); err != nil {
					return err
				}
			}
		case <-prune.C:
			if names := e.waiters.prune(); len(names) > 0 {
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

// teller says what changed, from one goroutine at a time, and nothing once it has
// ended.
type teller struct {
	waiters *waiters
	changed func(engine.Claim)

	mu    sync.Mutex
	ended bool
}

// tell says that whoever waits on a channel should try.
func (t *teller) tell(channel string) {
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
