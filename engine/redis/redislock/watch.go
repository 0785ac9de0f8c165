package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"leasehold/engine"
)

// Watch implements [engine.Engine]. It subscribes on a connection of its own
// and hands messages on from the goroutine that reads them: no other stands
// between a hand-over and its waiter.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	if e.replicas > 0 {
		return e.believed(ctx, changed)
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
		case <-e.life.Done():
		}
		timer.Stop()
		pause = min(2*pause, longest)
	}
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, changed func(engine.Claim)) error {
	s, err := e.wire.Listen(ctx, func(string) { changed(engine.Claim{}) }, func(_, message string) {
		if c, ok := e.note(message); ok {
			changed(c)
		}
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(ctx, e.channel); err != nil {
		return err
	}
	select {
	case err := <-s.Lost():
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
		return engine.ErrClosed
	}
}
