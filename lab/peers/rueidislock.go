package main

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"leasehold"
	"leasehold/torture"
)

// rueidislocks is rueidislock as its README sets it up for one Redis.
type rueidislocks struct{ rueidislock.Locker }

func openRueidislock(_ context.Context, at place) (library, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{at.addr}},
		KeyMajority:  1, NoLoopTracking: true, KeyValidity: at.ttl,
	})
	return rueidislocks{l}, err
}

// Lock takes a context that does not end with ctx: a lock ends with the one it was made from.
func (r rueidislocks) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	waiting, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	lock := r.WithContext
	if try {
		lock = r.TryWithContext
	}
	held, release, err := lock(waiting, name)
	switch {
	case try && errors.Is(err, rueidislock.ErrNotLocked):
		err = leasehold.ErrHeld
	case err == nil && !stop():
		release()
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	return &rueidislockHeld{held, release, end}, nil
}

func (r rueidislocks) Close() error { r.Locker.Close(); return nil }

type rueidislockHeld struct {
	ctx          context.Context
	release, end context.CancelFunc
}

func (h *rueidislockHeld) Valid() bool { return h.ctx.Err() == nil }

func (h *rueidislockHeld) Lost() <-chan struct{} { return h.ctx.Done() }

// Unlock says what the context said: the library's own has no answer.
func (h *rueidislockHeld) Unlock() error {
	lost := h.ctx.Err() != nil
	h.release()
	h.end()
	if lost {
		return leasehold.ErrLost
	}
	return nil
}
