package torture

import (
	"context"
	"errors"

	"leasehold"
	"leasehold/engine"
	"leasehold/torture/history"
)

// Locker is an engine that stands for the locks of another library. A client locks by Lock
// alone, and calls nothing else of it: nothing of package leasehold is between. So a trial
// shows what that library tells a holder, and when. Its locks are exclusive. Nobody revokes
// them, and nobody locks a name that it has.
//
// The runner calls Queue to see whether the server answers, and Queues to see what is left.
type Locker interface {
	engine.Engine

	// Begin is called once in each client, before it locks: what takes a while may start here.
	Begin(ctx context.Context) error

	// Lock waits for a name as the library does, until ctx ends. With try it does not wait:
	// the error is leasehold.ErrHeld if somebody else has the name.
	Lock(ctx context.Context, name string, try bool) (Held, error)
}

// Held is a lock of another library that somebody has.
type Held interface {
	// Valid is whether the holder may go on, as far as the library lets it know. Once false it
	// stays false, or the library says that the lock was held all the time.
	Valid() bool

	// Lost is closed when the library tells the holder that the lock is lost. It is nil if
	// the library tells nobody.
	Lost() <-chan struct{}

	// Unlock gives the lock back. The error is leasehold.ErrLost if the library says that it
	// was not held any more.
	Unlock() error
}

// other is a lock of another library as a lease.
type other struct {
	Held
	name string
	ctx  context.Context // ends at Unlock, and when the library says that the lock is lost
	end  context.CancelCauseFunc
}

func (m *member) obtainOther(ctx context.Context, w want) (lease, error) {
	got, err := m.others.Lock(ctx, w.name, w.what == history.Try)
	if err != nil {
		return nil, err
	}
	o := &other{Held: got, name: w.name}
	o.ctx, o.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if lost := got.Lost(); lost != nil {
		go func() {
			select {
			case <-lost:
				o.end(leasehold.ErrLost)
			case <-o.ctx.Done():
			}
		}()
	}
	return o, nil
}

func (o *other) Name() string             { return o.name }
func (o *other) Mode() engine.Modes       { return engine.Exclusive }
func (o *other) Token() leasehold.Token   { return 0 }
func (o *other) Context() context.Context { return o.ctx }

func (o *other) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Unlock ends the context first: what the library tells from then on is no loss.
func (o *other) Unlock() error {
	o.end(nil)
	return o.Held.Unlock()
}

func (o *other) Detach() (leasehold.Handle, error) { return "", errors.ErrUnsupported }
