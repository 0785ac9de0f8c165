package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/coalesce"
	"leasehold/internal/mailbox"
)

// Engine is one client of an etcd cluster.
type Engine struct {
	client *clientv3.Client
	owned  bool // Close closes client
	keys   keys

	bounds    bounds
	allowOld  bool
	endClient context.CancelFunc // of an owned one
	judge     chan struct{}      // capacity 1: its members are to be judged again
	judging   atomic.Bool

	name  string        // this client, in keys
	least time.Duration // the shortest TTL: its etcd lease is the shortest that there is

	life  context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup
	mail  *mailbox.Box

	table   table
	group   coalesce.Group[*call, answer]
	looks   looks
	past    past
	streams atomic.Int64 // how many watches have failed; see watching
	missed  lock         // capacity maxMissed

	mu      sync.Mutex
	classes session.Classes[*lifeline]
	opened  int                // how many sessions
	unfit   error              // why its members are not safe to lock with
	hearing context.CancelFunc // of the subscription to notifications that runs
}

var _ engine.Engine = (*Engine)(nil)

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Order: engine.FIFO, Modes: engine.Exclusive | engine.Shared | engine.Permits,
		Fencing: engine.FencingAlways, Failover: engine.FailoverConsensus, Scope: engine.ScopeCluster,
		CrashRelease: engine.CrashSession, Detach: true, SeesWaiters: true,
		MinTTL: e.least,
	}
}

// Watch implements [engine.Engine].
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !e.begun(func(life context.Context) { stop(e.listen(ctx, life)) }) {
		return engine.ErrClosed
	}
	if err := e.mail.Deliver(ctx, e.life.Done(), changed); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return engine.ErrClosed
}

// begun runs f in a goroutine that Close waits for, unless the engine is closed.
func (e *Engine) begun(f func(life context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil {
		return false
	}
	e.tasks.Go(func() { f(e.life) })
	return true
}

// leases are those that claims hang on which are not detached: of the sessions, and former
// ones of which not all claims are attached to another yet.
func (e *Engine) leases() map[clientv3.LeaseID]bool {
	all := map[clientv3.LeaseID]bool{}
	for _, s := range e.lives() {
		all[e.current(s).id] = true
	}
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	for _, c := range e.table.m.Claims {
		if !c.Detached {
			all[c.lease()] = true
		}
	}
	delete(all, 0)
	return all
}

// Close implements [engine.Engine]. It revokes the sessions, which ends all claims that
// are not detached, in two seconds at most. After an error they may live for their TTLs.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.life.Err() != nil {
		e.mu.Unlock()
		return nil
	}
	e.end() // under mu: see begun
	e.mu.Unlock()
	e.tasks.Wait()

	ctx, cancel := context.WithTimeout(context.Background(), e.bounds.closing)
	defer cancel()
	var err error
	for id := range e.leases() {
		if _, failed := e.client.Revoke(ctx, id); failed != nil && !leaseGone(failed) {
			err = fmt.Errorf("etcdlock: the claims of this client end by their session: %w", explain(failed))
		}
	}
	if e.owned {
		err = errors.Join(err, e.client.Close())
	}
	if e.endClient != nil {
		e.endClient()
	}
	return err
}
