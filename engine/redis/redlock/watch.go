package redlock

import (
	"context"
	"errors"
	"sync"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// Watch implements [engine.Engine]. It listens on every master. Who is told that a
// lock is free tries at once, and finds the other masters free as well: they were
// told to give it up at the same moment.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var one sync.Mutex // changed is called by one goroutine at a time
	tell := func(c engine.Claim) {
		one.Lock()
		defer one.Unlock()
		if ctx.Err() == nil {
			changed(c)
		}
	}
	var all sync.WaitGroup
	for _, m := range e.masters {
		all.Go(func() {
			if err := e.watch(ctx, m, tell); errors.Is(err, engine.ErrRefused) {
				stop(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		return engine.ErrClosed
	}
	return context.Cause(ctx)
}

// watch listens on one master, for as long as the engine lives.
func (e *Engine) watch(ctx context.Context, m *master, tell func(engine.Claim)) error {
	return wire.Again(ctx, e.life.Done(), e.closed.Load, func() error { return e.subscribe(ctx, m, tell) })
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, m *master, tell func(engine.Claim)) error {
	select {
	case <-m.opened:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
		return engine.ErrClosed
	}
	s, err := m.client.Listen(ctx, func(string) { tell(engine.Claim{}) }, func(_, message string) {
		if c, ok := note(message); ok {
			tell(c)
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

// note reads what wake.lua tells: a claim that may try.
func note(message string) (c engine.Claim, ok bool) {
	const secret = 2 * len(c.ID)
	if len(message) <= secret {
		return c, false
	}
	id, err := engine.ParseID(message[:secret])
	return engine.Claim{Name: message[secret:], ID: id, State: engine.Waiting}, err == nil
}
