package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"leasehold"
	"leasehold/torture"
)

// redsyncs is redsync on one Redis, with the pool and the defaults of its README.
type redsyncs struct {
	place
	client  *redis.Client
	redsync *redsync.Redsync
}

func openRedsync(_ context.Context, at place) (library, error) {
	c := redis.NewClient(&redis.Options{Addr: at.addr})
	return &redsyncs{at, c, redsync.New(goredis.NewPool(c))}, nil
}

func (r *redsyncs) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	m := r.redsync.NewMutex(name, redsync.WithExpiry(r.ttl))
	for {
		lock := m.LockContext
		if try {
			lock = m.TryLockContext
		}
		err := lock(ctx)
		switch {
		case err == nil:
			return r.held(m), nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !isTaken(err):
			return nil, err
		case try:
			return nil, leasehold.ErrHeld
		}
		// It gives up after 32 tries, and its documentation has one call it again.
	}
}

func isTaken(err error) bool {
	_, taken := errors.AsType[*redsync.ErrTaken](err)
	return taken || errors.Is(err, redsync.ErrFailed)
}

func (r *redsyncs) Close() error { return r.client.Close() }

type redsyncHeld struct {
	*renewal
	m     *redsync.Mutex
	asked bool
	until atomic.Pointer[time.Time]
}

func (r *redsyncs) held(m *redsync.Mutex) *redsyncHeld {
	h := &redsyncHeld{m: m, asked: r.asked}
	until := m.Until()
	h.until.Store(&until)
	h.renewal = renew(r.ttl, func(ctx context.Context) error {
		ok, err := m.ExtendContext(ctx)
		if err == nil && !ok {
			err = redsync.ErrExtendFailed
		}
		until := m.Until()
		h.until.Store(&until)
		return err
	})
	return h
}

func (h *redsyncHeld) Valid() bool {
	return !over(h.lost) && (!h.asked || time.Now().Before(*h.until.Load()))
}

func (h *redsyncHeld) Unlock() error {
	h.end()
	ok, err := h.m.UnlockContext(context.Background())
	switch {
	case ok:
		return nil
	case err == nil, isTaken(err), errors.Is(err, redsync.ErrLockAlreadyExpired):
		return leasehold.ErrLost
	}
	return err
}
