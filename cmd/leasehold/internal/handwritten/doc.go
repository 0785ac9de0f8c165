// Package handwritten has the locks that people copy from articles, each after its
// usual description and wrong on purpose. `leasehold demo`, its tests and
// docs/from-your-lock.md show how each of them fails. Do not use any of them.
package handwritten

import (
	"context"
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

// poll tries until it succeeds, as all of these articles do.
func poll(ctx context.Context, try func() (bool, error)) error {
	for {
		held, err := try()
		if held || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
