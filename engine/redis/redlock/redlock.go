package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/internal/boottime"
)

// Engine is one client of N independent masters.
type Engine struct {
	opts     Options
	masters  []*master
	majority int
	scripts  scripts
	channel  string // where this engine's claims are told that a lock is free
	clock    clock
	tries    atomic.Uint64

	claims  joined.Claims
	waiting waiting
	late    lateTries
	// What a master forgot is taken again after a renewal: see restore.go.
	restores restorations
	turns    turns

	closed atomic.Bool
	life   context.Context // ends when Close has left the claims
	end    context.CancelFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup // what outlives the call that began it
}

var _ engine.Engine = (*Engine)(nil)

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:   engine.OrderNone,
		Modes:   engine.Exclusive,
		Fencing: engine.FencingMemory,
		// The masters are no replicas of each other: one that is away grants
		// nothing and nobody stands in for it.
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashTTL,
		Detach:       true,
		MaxTTL:       e.opts.MaxTTL,
	}
	if e.opts.Layout == Redisson {
		g.Fencing = engine.FencingNone // its holders have no token, and cannot be fenced
	}
	return g
}

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if e.closed.Load() {
		return engine.Claim{}, engine.ErrClosed
	}
	if err := e.checkName(r.Name); err != nil {
		return engine.Claim{}, err
	}
	g := e.Guarantees()
	if err := g.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	if r.Limit != engine.Max {
		// n of n excludes as well, but a plain key cannot tell the two apart.
		return engine.Claim{}, fmt.Errorf("%w: redlock has only locks, no permits: %w", engine.ErrRefused, errors.ErrUnsupported)
	}
	if !r.Detached {
		// Before it is sent: a Join whose answer is lost must be left too.
		e.claims.Add(r.ID, r.Name, r.WaitTTL)
	}
	if err := e.turns.take(ctx, r.ID); err != nil {
		return engine.Claim{}, err
	}
	defer e.turns.end(r.ID)
	q := request{Request: r, began: e.clock.now(boottime.Now())}
	if known, _, ok := e.waiting.Get(r.ID); ok {
		q.began = known.began
	}
	if !r.NoWait {
		e.waiting.Expect(r.ID, r.Name, r.WaitTTL)
	}
	c, err := e.try(ctx, &q, r.WaitTTL)
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			e.waiting.Drop(r.ID)
			e.claims.Drop(r.ID)
		}
		return engine.Claim{}, err
	}
	if r.Replaces != (engine.ID{}) {
		e.waiting.Drop(r.Replaces)
		e.claims.Drop(r.Replaces)
	}
	if c.State == engine.Waiting && r.NoWait {
		c = engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit, State: engine.Gone}
	}
	switch c.State {
	case engine.Waiting:
		q.Replaces = engine.ID{} // done, whether it was held or waiting
		e.waiting.Put(r.ID, q, c.TTL)
	case engine.Held:
		e.waiting.Drop(r.ID)
	default:
		e.waiting.Drop(r.ID)
		e.claims.Drop(r.ID)
	}
	return c, nil
}

// Close implements [engine.Engine]: it leaves every claim that is not detached,
// for at most two seconds, and then waits for at most two more for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.claims.LeaveAll(e.leave)
	e.close()
	return err
}

func (e *Engine) close() {
	e.closed.Store(true)
	e.end()
	var closing sync.WaitGroup
	for _, m := range e.masters {
		closing.Go(m.close)
	}
	closing.Wait()
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	e.running.Wait() // every call has ended with its client
}

// spawn runs what may outlive the call that began it, until Close at the latest.
func (e *Engine) spawn(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		go f() // its calls fail at once
		return
	}
	e.running.Go(f)
}
