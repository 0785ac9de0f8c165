package main

import (
	"context"
	"errors"

	"leasehold"
	"leasehold/engines"
	"leasehold/torture"
)

// ours is leasehold, used as the others are.
type ours struct {
	*leasehold.Client
	asked bool
}

// openOurs opens the engine of a scheme.
func openOurs(scheme string) func(context.Context, place) (library, error) {
	return func(ctx context.Context, at place) (library, error) {
		eng, err := engines.Open(ctx, scheme+"://"+at.addr)
		if err != nil {
			return nil, err
		}
		c, err := leasehold.New(eng, &leasehold.Options{TTL: at.ttl})
		if err != nil {
			return nil, errors.Join(err, eng.Close())
		}
		return &ours{c, at.asked}, nil
	}
}

func (o *ours) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	lock := o.Client.Lock
	if try {
		lock = o.TryLock
	}
	l, err := lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return &ourHeld{l, o.asked}, nil
}

type ourHeld struct {
	*leasehold.Lease
	asked bool
}

func (h *ourHeld) Valid() bool {
	if h.asked {
		return h.Lease.Valid()
	}
	return h.Context().Err() == nil
}

func (h *ourHeld) Lost() <-chan struct{} { return h.Context().Done() }
