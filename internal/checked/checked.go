// Package checked is the checker in front of every engine. Package leasehold puts it
// there, and so does the conformance suite.
//
// It promises an engine that it gets only valid calls, while it is open. It checks names,
// IDs, permits and limits, owners, and TTLs against the bounds of every engine and of this
// one, and modes and detached claims against Guarantees. It answers an invalid call
// itself, with an error that is [engine.ErrRefused].
//
// When the engine is closed it ends Watch, Queue, Queues, Revoke and Check, whatever their
// callers' contexts say, and answers every later call with [engine.ErrClosed]. Join, Renew
// and Leave end with their contexts alone: package leasehold bounds those itself, and they
// cost no garbage here. It begins a broken Watch again ([Engine.KeepWatching]).
//
// It knows nothing of queues, and does not check an engine's answers.
//
// # Which error
//
// If several things are wrong with a call, the answer is the first of these:
//
//  1. a batch of more than [engine.MaxBatch] items;
//  2. an error of the request, in the order of [engine.Request.Check] and then
//     [engine.Guarantees.Check];
//  3. [engine.ErrClosed];
//  4. the error of a context that has ended;
//  5. the engine's answer.
//
// So an invalid request is refused at any time, and its caller learns that first. In a
// batch the second error is of its item alone: the other items go on to the engine, and
// the invalid one is missing from the result. The error is then the engine's, if it has
// one, since that call can be repeated; otherwise that of the first invalid item.
//
// # Short lives
//
// [engine.Request].WaitTTL, and [engine.Renewal].Want of a waiting claim, are short on
// purpose, and may be below the engine's MinTTL. The checker raises them to it. It never
// raises the TTL that a user asks for: that is [engine.Request].TTL, and package leasehold
// refuses a short one before it asks the engine.
package checked

import (
	"context"
	"iter"
	"sync"

	"leasehold/engine"
)

// Engine is an engine that gets only valid calls.
type Engine struct {
	inner   engine.Engine
	checker engine.Checker // inner, if it is one, else nil
	grants  engine.Guarantees

	life  context.Context // ends at Close
	end   context.CancelFunc
	close func() error // inner's, once
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Checker = (*Engine)(nil)
)

// New stands around e. Around what is one already it is that one.
func New(e engine.Engine) *Engine {
	if already, is := e.(*Engine); is {
		return already
	}
	c := &Engine{inner: e, grants: e.Guarantees(), close: sync.OnceValue(e.Close)}
	c.checker, _ = e.(engine.Checker)
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Unwrap is the engine inside.
func (e *Engine) Unwrap() engine.Engine { return e.inner }

// open says why nothing can be asked now, or nil.
func (e *Engine) open(ctx context.Context) error {
	if e.life.Err() != nil {
		return engine.ErrClosed
	}
	return ctx.Err()
}

// untilClose is ctx that ends with Close too: an engine may wait in its Close for the
// calls under way, and a caller's context may never end.
func (e *Engine) untilClose(ctx context.Context) (_ context.Context, end func()) {
	both, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(e.life, cancel)
	return both, func() {
		forget()
		cancel()
	}
}

// said is the error of a call that Close may have ended.
func (e *Engine) said(err error) error {
	if err != nil && e.life.Err() != nil {
		return engine.ErrClosed
	}
	return err
}

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if err := e.grants.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	if err := e.open(ctx); err != nil {
		return engine.Claim{}, err
	}
	r.WaitTTL = max(r.WaitTTL, e.grants.MinTTL)
	return e.inner.Join(ctx, r)
}

// Watch implements [engine.Engine]. It ends with Close.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	if err := e.open(ctx); err != nil {
		return err
	}
	both, end := e.untilClose(ctx)
	defer end()
	err := e.inner.Watch(both, changed)
	if ended := e.open(ctx); ended != nil {
		return ended
	}
	return err
}

// Queue implements [engine.Engine].
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Queue{}, err
	}
	if err := e.open(ctx); err != nil {
		return engine.Queue{}, err
	}
	both, end := e.untilClose(ctx)
	defer end()
	q, err := e.inner.Queue(both, name)
	return q, e.said(err)
}

// Queues implements [engine.Engine]. It goes no further once the engine is closed.
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		if err := e.open(ctx); err != nil {
			yield(engine.Queue{}, err)
			return
		}
		both, end := e.untilClose(ctx)
		defer end()
		for l, err := range e.inner.Queues(both, prefix) {
			if e.life.Err() != nil {
				l, err = engine.Queue{}, engine.ErrClosed
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// Revoke implements [engine.Engine].
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if ticket > engine.MaxTicket {
		return engine.ErrNoClaim
	}
	if err := e.open(ctx); err != nil {
		return err
	}
	both, end := e.untilClose(ctx)
	defer end()
	return e.said(e.inner.Revoke(both, name, ticket, now))
}

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees { return e.grants }

// Checks reports whether the engine is an [engine.Checker].
func (e *Engine) Checks() bool { return e.checker != nil }

// Check implements [engine.Checker]: there is nothing to say where the engine is none.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.open(ctx); err != nil || e.checker == nil {
		return err
	}
	both, end := e.untilClose(ctx)
	defer end()
	return e.said(e.checker.Check(both))
}

// Close implements [engine.Engine]. The engine is closed once: who closes again gets
// the same answer.
func (e *Engine) Close() error {
	e.end()
	return e.close()
}
