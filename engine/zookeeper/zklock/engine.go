package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/zookeeper/internal/nodes"
	"leasehold/internal/boottime"
	"leasehold/internal/mailbox"
)

// Engine is one client of a ZooKeeper: one session for each class of TTL that is in use,
// however many names.
type Engine struct {
	options Options
	root    string // "" or "/a/b"
	layout  nodes.Layout
	acl     []zk.ACL

	shortest, longest time.Duration // TTLs that the servers allow
	usual             time.Duration // of the session of who only looks

	life    context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup // what outlives its caller
	mail    *mailbox.Box

	mu       sync.Mutex
	closed   bool // nothing new begins
	classes  session.Classes[*claimant]
	watching bool
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Checker = (*Engine)(nil)
)

// class is the session of some claims.
type class = session.Class[*claimant]

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        e.layout.Modes(),
		Fencing:      engine.FencingAlways,
		Failover:     engine.FailoverConsensus,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashSession,
		SeesWaiters:  true,
		MinTTL:       e.shortest,
		MaxTTL:       e.longest,
	}
}

func (e *Engine) parent(name string) string { return e.root + "/" + nodes.Encode(name) }

func (e *Engine) rootPath() string { return cmp.Or(e.root, "/") }

// spawn runs f in a goroutine that Close waits for, unless it is too late. The caller
// holds the mutex.
func (e *Engine) spawn(f func()) bool {
	if e.closed {
		return false
	}
	e.running.Go(f)
	return true
}

// use is the session of a class of TTL, as soon as it is ready, with one more use, which
// done ends.
func (e *Engine) use(ctx context.Context, ttl time.Duration) (*class, error) {
	c, err := e.room(ctx, ttl)
	if err != nil {
		return nil, err
	}
	if err := c.Session.ready(ctx); err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.classes.Done(c, boottime.Now())
		if c.Session.failed != nil {
			e.classes.Discard(c)
		}
		return nil, err
	}
	return c, nil
}

// room is a class for that TTL, with one more use. A claim that is given up keeps its class
// until its node has gone, and one that is being made may be refused yet. Only claims that
// stand in the queue refuse a TTL.
func (e *Engine) room(ctx context.Context, ttl time.Duration) (*class, error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, engine.ErrClosed
		}
		c, err := e.classes.For(ttl, boottime.Now())
		final := e.standing() >= session.MaxClasses
		e.mu.Unlock()
		if err == nil || final {
			return c, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-e.life.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("zookeeper: claims with %d TTLs are on their way into the queue or out of it, and each TTL needs a session of its own; ask again: %w", session.MaxClasses, context.Cause(ctx))
		}
	}
}

// standing is of how many classes claims stand in the queue. The caller holds the mutex.
func (e *Engine) standing() (n int) {
	for _, one := range e.classes.Opened() {
		for _, c := range one.Session.m.Claims {
			if c.Phase.Stands() {
				n++
				break
			}
		}
	}
	return n
}

func (e *Engine) done(c *class) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.classes.Done(c, boottime.Now())
}

// sweep gives up sessions that nobody uses, for as long as the engine lives.
func (e *Engine) sweep() {
	ticker := time.NewTicker(session.Idle / 2)
	defer ticker.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-ticker.C:
			e.mu.Lock()
			e.classes.Sweep(boottime.Now())
			e.mu.Unlock()
		}
	}
}

// find is a claim of this client, and whose. One that it does not know is gone: nodes end
// with their session, and this engine is the only one who has it.
func (e *Engine) find(name string, id engine.ID) (*claimant, *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.classes.Opened() {
		if c := one.Session.m.Claims[id]; c != nil && c.Name == name {
			return one.Session, c
		}
	}
	return nil, nil
}

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if e.layout.Modes()&engine.Permits == 0 && r.Limit != engine.Max {
		// n of n excludes as well, but these names cannot tell the two apart.
		return engine.Claim{}, fmt.Errorf("%w: this layout has no permits: %w", engine.ErrRefused, errors.ErrUnsupported)
	}
	if of, c := e.find(r.Name, r.ID); c != nil {
		return of.joinAgain(ctx, c)
	}
	ttl := max(cmp.Or(r.TTL, r.WaitTTL), e.shortest)
	class, err := e.use(ctx, ttl)
	if err != nil {
		return engine.Claim{}, err
	}
	return class.Session.join(ctx, r, ttl, class)
}

// Watch implements [engine.Engine]. ZooKeeper notifies that a node has changed. The engine
// then reads what that means for its claims, many at a time, and reports it here.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	e.mu.Lock()
	e.watching = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watching = false
		for _, one := range e.classes.Opened() {
			clear(one.Session.looks)
		}
	}()
	e.mail.PostAll() // it begins
	return e.mail.Deliver(ctx, e.life.Done(), changed)
}

// Close implements [engine.Engine]: it ends the sessions, and with them every claim, in
// one request each. Without a server they end when their sessions time out, which the
// error says. It is bounded by some five seconds.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	all := e.classes.Opened()
	e.mu.Unlock()
	errs := make([]error, len(all))
	e.end()
	each(len(all), func(i int) { errs[i] = all[i].Session.close() })
	e.running.Wait() // the library has answered everything that was asked
	return errors.Join(errs...)
}
