package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Watch implements [engine.Engine]. It listens on every master. Who is told that a
// lock is free tries at once, and finds the other masters free as well: they were
// told to give it up at the same moment.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var one sync.Mutex // changed is called by one goroutine at a time
	notify := func(c engine.Claim) {
		one.Lock()
		defer one.Unlock()
		if ctx.Err() == nil {
			changed(c)
		}
	}
	var all sync.WaitGroup
	for i, m := range e.masters {
		all.Go(func() {
			if err := e.watch(ctx, m, e.waiting.ears.more[i], notify); errors.Is(err, engine.ErrRefused) {
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
func (e *Engine) watch(ctx context.Context, m *master, more <-chan struct{}, notify func(engine.Claim)) error {
	return redisconn.Again(ctx, e.life.Done(), e.closed.Load, func() error { return e.subscribe(ctx, m, more, notify) })
}

// subscribe listens on one connection for as long as it lasts.
func (e *Engine) subscribe(ctx context.Context, m *master, more <-chan struct{}, notify func(engine.Claim)) error {
	select {
	case <-m.opened:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
		return engine.ErrClosed
	}
	// Who has asked before a subscription stood may have missed a release.
	began := func(channel string) {
		if channel == e.channel {
			notify(engine.Claim{})
		}
		e.released(channel, notify)
	}
	s, err := m.client.Listen(ctx, began, func(channel, message string) {
		if channel != e.channel {
			if message != ours { // of ours one at a time is told
				e.released(channel, notify)
			}
		} else if c, ok := notification(message); ok {
			notify(c)
		}
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(ctx, e.channel); err != nil {
		return err
	}
	prune := time.NewTicker(linger)
	defer prune.Stop()
	for listens := map[string]bool{}; ; {
		if err := e.tune(ctx, s, listens); err != nil {
			return err
		}
		select {
		case <-more:
		case <-prune.C:
			e.waiting.ears.prune()
		case err := <-s.Lost():
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-e.life.Done():
			return engine.ErrClosed
		}
	}
}

// tune has a connection listen to the channels of the locks that claims wait for.
func (e *Engine) tune(ctx context.Context, s *redisconn.Subscription, listens map[string]bool) error {
	more, less := e.waiting.ears.changes(listens)
	for _, channel := range more {
		listens[channel] = true
	}
	for _, channel := range less {
		delete(listens, channel)
	}
	if len(less) > 0 {
		if err := s.Unsubscribe(ctx, less...); err != nil {
			return err
		}
	}
	if len(more) > 0 {
		return s.Subscribe(ctx, more...)
	}
	return nil
}

// released tells who waits for a lock that other programs say is free.
func (e *Engine) released(channel string, notify func(engine.Claim)) {
	for _, c := range e.waiting.ears.on(channel) {
		notify(c)
	}
}

// audible refuses a user who may not tell other programs of a release, or not hear of
// theirs: every wait would last until somebody looks.
func (e *Engine) audible(c *redisconn.Client) error {
	channel := e.opts.Layout.channel("leasehold:nobody")
	if channel == "" {
		return nil
	}
	s, err := c.Listen(e.life, func(string) {}, func(string, string) {})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(e.life, channel); err != nil {
		return err
	}
	return c.Publish(e.life, channel, ours)
}

// notification reads what wake.lua tells: a claim that may try.
func notification(message string) (c engine.Claim, ok bool) {
	const secret = 2 * len(c.ID)
	if len(message) <= secret {
		return c, false
	}
	id, err := engine.ParseID(message[:secret])
	return engine.Claim{Name: message[secret:], ID: id, State: engine.Waiting}, err == nil
}
