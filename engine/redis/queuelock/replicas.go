package queuelock

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// With ?replicas=n a hold is believed only once n replicas have acknowledged the
// call that says so.

// renewed makes the calls of a Renew.
func (e *Engine) renewed(ctx context.Context, calls []redisconn.Call) []redisconn.Answer {
	if e.replicas == 0 {
		return e.wire.CallMany(ctx, e.scripts.renew, calls)
	}
	return e.wire.CallSynced(ctx, e.replicas, e.scripts.renew, calls)
}

// believed passes notifications of claims on. If the word of one server is not enough, it
// first renews a claim that is said to be held, and waits for the replicas.
func (e *Engine) believed(ctx context.Context, changed func(engine.Claim)) error {
	received := make(chan engine.Claim, 1024)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer close(received)
		ended <- e.subscribe(ctx, func(c engine.Claim) {
			select {
			case received <- c:
			default: // too much at once: the core's own Renew is the floor
			}
		})
	}()
	for c := range received {
		if c.State != engine.Held {
			changed(c)
			continue
		}
		cs, err := e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: engine.MinTTL}})
		if err == nil && len(cs) == 1 && cs[0].State != engine.Waiting {
			changed(cs[0])
		}
	}
	return <-ended
}
