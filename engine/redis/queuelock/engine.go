package queuelock

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Engine is one client of a Redis, in the layout with queues.
type Engine struct {
	wire     *redisconn.Client
	revokes  bool // Options.AllowEviction
	groups   groups
	scripts  scripts
	prefix   string
	channel  string // on which this engine's claims are notified
	replicas int
	longest  time.Duration // the longest TTL; 0: the package's
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Checker = (*Engine)(nil)
)

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        engine.Exclusive | engine.Shared | engine.Permits,
		Fencing:      engine.FencingMemory,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashTTL,
		Detach:       true,
		SeesWaiters:  true,
		MaxTTL:       e.longest,
	}
	if e.wire.FailsOver() {
		// A replica is behind its primary; no number of acknowledgements keeps
		// Sentinel from promoting one that missed a write.
		g.Failover = engine.FailoverMayDouble
	}
	return g
}

// Check implements [engine.Checker]: it checks the settings that Open checked.
func (e *Engine) Check(ctx context.Context) error { return e.wire.CheckAgain(ctx, e.revokes) }

// Close implements [engine.Engine]. It waits for at most two seconds for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	e.wire.Close()
	return nil
}
