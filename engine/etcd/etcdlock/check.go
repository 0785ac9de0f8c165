package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/stats"

	"leasehold/engine"
)

// What was looked at when the engine was opened may change under it: a member comes
// back with an older program, or an address names another cluster. So it is looked at
// again whenever a connection to a member is made.

var _ engine.Checker = (*Engine)(nil)

// Check implements [engine.Checker]: it checks again that all members that answer are new
// enough and of one cluster. It reports once that the store went back, or that another
// cluster answers.
func (e *Engine) Check(ctx context.Context) error {
	err := e.examine(ctx)
	switch {
	case errors.Is(err, errUnfit):
		return engine.Refuse("%w", err)
	case err != nil:
		return fmt.Errorf("etcdlock: %w", e.explain(err))
	}
	return e.past.happened()
}

// examine judges the members, and remembers what is found.
func (e *Engine) examine(ctx context.Context) error {
	e.judging.Store(true)
	defer e.judging.Store(false)
	err := checkVersions(ctx, e.client, e.allowOld, false)
	if err == nil || errors.Is(err, errUnfit) {
		e.mu.Lock()
		e.unfit = err
		e.mu.Unlock()
	}
	return err
}

// fit refuses Joins after an unsafe member was found.
func (e *Engine) fit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unfit == nil {
		return nil
	}
	return engine.Refuse("%w", e.unfit)
}

// rejudge judges the members on request, for as long as the engine lives.
func (e *Engine) rejudge(life context.Context) {
	for {
		select {
		case <-life.Done():
			return
		case <-e.judge:
		}
		if err := e.examine(life); errors.Is(err, errUnfit) {
			e.mail.PostAll() // then the core calls Check
		}
	}
}

// mayBeOthers requests that the members be judged again.
func (e *Engine) mayBeOthers() {
	select {
	case e.judge <- struct{}{}:
	default: // they will be
	}
}

// connections reports each connection of a client to its engine.
type connections struct{ engine atomic.Pointer[Engine] }

// HandleConn implements [stats.Handler].
func (c *connections) HandleConn(_ context.Context, s stats.ConnStats) {
	// A check makes connections of its own.
	if _, began := s.(*stats.ConnBegin); !began || c.engine.Load() == nil || c.engine.Load().judging.Load() {
		return
	}
	c.engine.Load().mayBeOthers()
}

// TagConn implements [stats.Handler].
func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC implements [stats.Handler].
func (c *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements [stats.Handler].
func (c *connections) HandleRPC(context.Context, stats.RPCStats) {}
