package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"leasehold"
	"leasehold/torture"
)

// redislocks is bsm/redislock. It waits as its documented example does.
type redislocks struct {
	place
	client *redis.Client
	locker *redislock.Client
}

func openRedislock(_ context.Context, at place) (library, error) {
	c := redis.NewClient(&redis.Options{Addr: at.addr})
	return &redislocks{at, c, redislock.New(c)}, nil
}

func (r *redislocks) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	o := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	if try {
		o = nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it would give up after the TTL
	defer cancel()
	l, err := r.locker.Obtain(ctx, name, r.ttl, o)
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, leasehold.ErrHeld
	case err != nil:
		return nil, err
	}
	return &redislockHeld{l, r.asked, renew(r.ttl, func(ctx context.Context) error { return l.Refresh(ctx, r.ttl, nil) })}, nil
}

func (r *redislocks) Close() error { return r.client.Close() }

type redislockHeld struct {
	*redislock.Lock
	asked bool
	*renewal
}

func (h *redislockHeld) Valid() bool {
	if over(h.lost) || !h.asked {
		return !over(h.lost)
	}
	left, err := h.TTL(context.Background())
	return err == nil && left > 0
}

func (h *redislockHeld) Unlock() error {
	h.end()
	err := h.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return leasehold.ErrLost
	}
	return err
}
