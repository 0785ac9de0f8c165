package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Engine is one client of N independent masters.
type Engine struct {
	opts     Options
	masters  []*master
	majority int
	scripts  scripts
	channel  string // on which this engine's claims are notified that a lock is free
	clock    clock
	tries    atomic.Uint64

	ears  *parts.Ears
	late  lateTries
	turns turns
	// What a master forgot is taken again after a renewal: see restore.go.
	restores restorations

	life context.Context // ends at Close
	end  context.CancelFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup // what outlives the call that began it
	next    chan func()    // for goroutines of spawn that stay
	idle    atomic.Int32   // how many do
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

// Join implements [engine.Engine]. The masters remember for a while who waits, and try
// nothing for it: to try again is to join again.
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := parts.OnlyLocks(&r, "redlock"); err != nil {
		return engine.Claim{}, err
	}
	if err := e.checkName(r.Name); err != nil {
		return engine.Claim{}, err
	}
	if err := e.turns.take(ctx, r.ID); err != nil {
		return engine.Claim{}, err
	}
	defer e.turns.end(r.ID)
	q := request{Request: r}
	if !r.NoWait {
		q.began = e.clock.now(e.ears.Expect(r.ID, r.Name, r.WaitTTL))
	}
	c, err := e.try(ctx, &q)
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			e.ears.Forget(r.ID)
		}
		return engine.Claim{}, err
	}
	if r.Replaces != (engine.ID{}) {
		e.ears.Forget(r.Replaces)
	}
	switch {
	case c.State != engine.Waiting:
		e.ears.Forget(r.ID)
	case r.NoWait:
		c.State, c.TTL, c.PollAfter = engine.Gone, 0, 0
	default:
		e.ears.Waits(r.ID)
	}
	return c, nil
}

// checkName refuses a name whose key is one of those beside the locks: its lock would be
// another name's counter, or its list of waiters.
func (e *Engine) checkName(name string) error { return redisconn.CheckKey(e.opts.Prefix + name) }

// Close implements [engine.Engine]. It waits for at most two seconds for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	e.close()
	return nil
}

func (e *Engine) close() {
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

// spawn runs f, which may outlive the call that began it, until Close at the latest.
func (e *Engine) spawn(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		go f() // its calls fail at once
		return
	}
	select {
	case e.next <- f:
	default:
		e.running.Go(func() {
			for f != nil {
				f()
				f = e.stay()
			}
		})
	}
}

// stay is what a goroutine of spawn runs next; nil: nothing, and it ends. Some stay, since
// the stack of a new one grows several times on the way to the library's call, which took
// a tenth of the client's time.
func (e *Engine) stay() func() {
	defer e.idle.Add(-1)
	if int(e.idle.Add(1)) > len(e.masters) {
		return nil
	}
	select {
	case f := <-e.next:
		return f
	case <-e.life.Done():
		return nil
	}
}
