package main

import (
	"context"

	"leasehold/lab/interop/redisson"
	"leasehold/torture"
)

// rlocks is Redisson's RLock, which its watchdog renews.
type rlocks struct {
	*javas
	asked bool
}

func openRedisson(_ context.Context, at place) (library, error) {
	return &rlocks{&javas{
		kind: redisson.Lock, lock: "lockInterruptibly", try: "tryLock", unlock: "unlock",
		start: func(ctx context.Context) (*redisson.Process, error) {
			program, err := redisson.Build(ctx, redisson.Current)
			if err != nil {
				return nil, err
			}
			return program.Start(ctx, redisson.Options{Addrs: []string{at.addr}, Watchdog: at.ttl, JVM: small})
		},
	}, at.asked}, nil
}

func (r *rlocks) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	h, err := r.take(ctx, name, try, nil)
	if err != nil {
		return nil, err
	}
	return &rlockHeld{h, r.asked}, nil
}

type rlockHeld struct {
	*javaHeld
	asked bool
}

func (h *rlockHeld) Valid() bool {
	if !h.asked {
		return true
	}
	a, err := h.do(context.Background(), "isHeldByCurrentThread")
	return err == nil && a.Value == "true"
}

// Lost is nil: an RLock tells nobody.
func (*rlockHeld) Lost() <-chan struct{} { return nil }
