package engines

import (
	"context"
	"fmt"
	"time"

	"leasehold/engine"
)

// OpenWithin bounds every opening: an address at which something listens and never
// speaks is an error after so long. A context that ends earlier ends it earlier.
const OpenWithin = 5 * time.Second

// lastWords is how long an engine whose time is over may take to say what it met
// there. One that obeys its context needs a moment; one that does not is left behind.
const lastWords = 500 * time.Millisecond

// silence is the cause of a context that OpenWithin ended.
type silence struct{}

func (silence) Error() string {
	return fmt.Sprintf("no answer within %v: is it what the URL says, and does it work?", OpenWithin)
}

// Unwrap: a time has passed.
func (silence) Unwrap() error { return context.DeadlineExceeded }

// openWithin opens the engine in a goroutine of its own, so that neither a driver
// that does not look at its context while it dials nor a file system that hangs keeps
// the caller. What is opened after all is closed.
func (s Scheme) openWithin(ctx context.Context, rawURL string) (engine.Engine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, OpenWithin, silence{})
	type result struct {
		eng engine.Engine
		err error
	}
	opened := make(chan result, 1)
	go func() {
		defer cancel()
		eng, err := s.open(ctx, rawURL)
		opened <- result{eng, over(ctx, err)} // before ctx is ended for good
	}()
	select {
	case r := <-opened:
		return r.eng, r.err
	case <-ctx.Done():
	}
	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case r := <-opened:
		return r.eng, r.err
	case <-last.C:
	}
	go func() {
		if r := <-opened; r.err == nil {
			r.eng.Close() // nobody is left who wants to hear how that went
		}
	}()
	return nil, context.Cause(ctx)
}

// over puts why the time was over, if it was, before what the engine says of it.
func over(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}
