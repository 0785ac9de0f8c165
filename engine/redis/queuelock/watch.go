package queuelock

import (
	"context"

	"leasehold/engine"
)

// Watch implements [engine.Engine]. It subscribes on a connection of its own
// and hands messages on from the goroutine that reads them: no other stands
// between a hand-over and its waiter.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	if e.replicas > 0 {
		return e.believed(ctx, changed)
	}
	return e.subscribe(ctx, changed)
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, changed func(engine.Claim)) error {
	s, err := e.wire.Listen(ctx, func(string) { changed(engine.Claim{}) }, func(_, message string) {
		if c, ok := e.notification(message); ok {
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
	return s.Wait(ctx)
}
