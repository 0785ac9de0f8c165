package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// Watch implements [engine.Engine]. It subscribes on a connection of its own
// and hands messages on from the goroutine that reads them: no other stands
// between a hand-over and its waiter.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	if e.replicas > 0 {
		return e.watchProven(ctx, changed)
	}
	return e.watch(ctx, changed)
}

func (e *Engine) watch(ctx context.Context, changed func(engine.Claim)) error {
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
		case <-e.closing:
		}
		timer.Stop()
		pause = min(2*pause, longest)
	}
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, changed func(engine.Claim)) error {
	conn, err := e.dedicate(ctx)
	if err != nil {
		return err
	}
	// Closing may wait for the server; whoever waits for Watch must not.
	defer e.spawn(conn.Close)

	// The reader may be in the middle of a message when this function ends.
	// Nothing may be reported after Watch has returned.
	var mu sync.Mutex
	var ended bool
	report := func(c engine.Claim) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			changed(c)
		}
	}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	}()
	hear := func(channel, message string) {
		if c, ok := e.note(message); ok && channel == e.channel {
			report(c)
		}
	}
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { hear(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				report(engine.Claim{})
			}
		},
	})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(e.channel).Build()).Error(); err != nil {
		return explain(err, e.channel)
	}
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return engine.ErrClosed
	}
}
