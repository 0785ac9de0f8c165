package redisconn

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"leasehold/engine"
)

// Again calls listen, which lasts as long as a subscription does, whenever it has
// returned, until ctx ends, the engine is closed, or the server refuses. Life ends
// with the engine, and wakes who pauses.
func Again(ctx context.Context, life <-chan struct{}, closed func() bool, listen func() error) error {
	const shortest, longest = 20 * time.Millisecond, time.Second
	for pause := shortest; ; {
		began := time.Now()
		err := listen()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case closed():
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
		case <-life:
		}
		timer.Stop()
		pause = min(2*pause, longest)
	}
}
