package plainlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"leasehold/engine"
)

// docs/guarantees.md says that this engine never reports EventSettings: the core calls
// Check when a subscription begins again, and here none does.
func TestItsOneSubscriptionNeverBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := 0
		ended := make(chan error, 1)
		go func() { ended <- (&Engine{}).Watch(ctx, func(engine.Claim) { begun++ }) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || begun != 1 {
			t.Errorf("it began %d times, and ended with %v", begun, err)
		}
	})
}
