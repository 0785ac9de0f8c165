package engines

import (
	"context"
	"fmt"
	"time"

	"leasehold/engine"
)

// OpenWithin bounds every opening: an address that accepts a connection and never answers
// is an error after that time. A context that ends earlier ends it earlier.
const OpenWithin = 5 * time.Second

// lastWords is how long an engine may take to return after its time is over, to report the
// cause. An engine that obeys its context needs a moment; Open leaves any other behind.
const lastWords = 500 * time.Millisecond

// silence is the cause of a context that OpenWithin ended.
type silence struct{}

func (silence) Error() string {
	return fmt.Sprintf("no answer within %v: check the address in the URL, and that the server works", OpenWithin)
}

// Unwrap: a time has passed.
func (silence) Unwrap() error { return context.DeadlineExceeded }

// openWithin opens the engine in a goroutine of its own. So neither a driver that does not
// check its context while it dials nor a file system that hangs blocks the caller. If the
// engine opens after all, openWithin closes it.
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
			r.eng.Close() // no caller is left for its error
		}
	}()
	return nil, context.Cause(ctx)
}

// over puts the reason why the time was over, if it was, before the engine's error.
func over(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}
