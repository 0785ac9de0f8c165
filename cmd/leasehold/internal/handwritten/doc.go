// Package handwritten has the locks that people copy from articles, each after its
// usual description and wrong on purpose. `leasehold demo`, its tests and
// docs/from-your-lock.md show how each of them fails. Do not use any of them.
package handwritten

import (
	"context"
	"errors"
	"time"
)

// Lock is what all of them have.
type Lock interface {
	// Lock tries until it has the lock, or until ctx ends.
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// pause is how long the locks that poll sleep between two tries.
const pause = 50 * time.Millisecond

// ErrTaken is returned by a Lock that tries once, when somebody else has the lock.
var ErrTaken = errors.New("somebody else has the lock")

type once struct{}

// Once has a Lock that polls try once: who tortures it polls by itself.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, once{}, true) }

// poll tries until it succeeds, as all of these articles do.
func poll(ctx context.Context, try func() (bool, error)) error {
	for {
		held, err := try()
		if held || err != nil {
			return err
		}
		if ctx.Value(once{}) != nil {
			return ErrTaken
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
