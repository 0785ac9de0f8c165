package queuelock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/engine/redis/internal/redisconn"
)

// Engine is one client of a Redis, in the queues layout.
type Engine struct {
	wire     *redisconn.Client
	revokes  bool // Options.AllowEviction
	group    group
	scripts  scripts
	prefix   string
	channel  string // where this engine's claims are told of changes
	replicas int
	longest  time.Duration // the longest TTL; 0: the package's
	claims   joined.Claims

	closed atomic.Bool
	life   context.Context // ends when Close has left the claims
	end    context.CancelFunc
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

// Check implements [engine.Checker]: it looks again at what Open has looked at.
func (e *Engine) Check(ctx context.Context) error { return e.wire.CheckAgain(ctx, e.revokes) }

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := e.check(&r); err != nil {
		return engine.Claim{}, err
	}
	ask := e.joining(&r)
	if !r.Detached {
		// Before it is sent: a Join whose answer is lost must be left too.
		e.claims.Add(r.ID, r.Name, r.WaitTTL)
	}
	c, err := e.join(ctx, ask, &r)
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			e.claims.Drop(r.ID)
		}
		return engine.Claim{}, err
	}
	c.Name, c.ID = r.Name, r.ID
	if c.State == engine.Gone {
		e.claims.Drop(r.ID)
	} else if r.Replaces != (engine.ID{}) {
		e.claims.Drop(r.Replaces)
	}
	return c, nil
}

func (e *Engine) check(r *engine.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	g := e.Guarantees()
	return g.Check(r)
}

// joining is the call that joins.
func (e *Engine) joining(r *engine.Request) redisconn.Call {
	args := []string{e.packed(r), strconv.FormatInt(r.WaitTTL.Microseconds(), 10)}
	switch {
	case r.NoWait:
		args = append(args, "n")
	case r.Replaces != (engine.ID{}):
		args = append(args, string(r.Replaces[:]))
	}
	return redisconn.Call{Keys: []string{e.key(r.Name)}, Args: args}
}

// packed is the part of a claim's stored form that does not depend on the
// server: see join.lua.
func (e *Engine) packed(r *engine.Request) string {
	flags := byte(1) // held, if nobody is in the queue
	if r.Detached {
		flags |= 2
	}
	b := append(make([]byte, 0, 128), flags)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Permits))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Limit))
	b = append(b, r.ID[:]...)
	b = append(b, byte(len(e.channel)))
	b = append(b, e.channel...)
	return string(r.Owner.AppendText(b))
}

func (e *Engine) join(ctx context.Context, ask redisconn.Call, r *engine.Request) (engine.Claim, error) {
	key := ask.Keys[0]
	m, err := e.asked(ctx, ask).ToMessage()
	if err != nil {
		return engine.Claim{}, redisconn.Explain(err, key)
	}
	if m.IsInt64() {
		ticket, err := m.AsInt64()
		return settled(ticket, r), err
	}
	b, err := m.ToString()
	if err != nil {
		return engine.Claim{}, fmt.Errorf("redis: not an answer of ours: %w", err)
	}
	if c, ok := decode(b); ok {
		return c, nil
	}
	switch {
	case b == "X":
		return engine.Claim{}, redisconn.Foreign(key)
	case b == "T":
		return engine.Claim{}, engine.Refuse("the key %q remembers a ticket behind which there is none below %d, or the clock of this Redis is absurd: "+
			"if the clock is right, delete that key where nobody holds", key, uint64(engine.MaxTicket))
	case len(b) == 5 && b[0] == 'L':
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: int32(u32(b[1:])), Want: r.Limit}
	case len(b) == 5 && b[0] == 'C':
		return engine.Claim{}, engine.Refuse("%d claims are in the queue already, which is the most", u32(b[1:]))
	}
	return engine.Claim{}, fmt.Errorf("redis: not an answer of ours: %d bytes", len(b))
}

// settled is the usual answer to a Join: a ticket of who holds, minus a ticket of
// who waits behind others.
func settled(ticket int64, r *engine.Request) engine.Claim {
	c := engine.Claim{Ticket: uint64(ticket), Permits: r.Permits, Limit: r.Limit, State: engine.Held, TTL: r.WaitTTL.Truncate(time.Microsecond)}
	if ticket < 0 {
		c.Ticket, c.State = uint64(-ticket), engine.Waiting
	}
	return c
}

// Close implements [engine.Engine]: it leaves every claim that is not detached,
// for at most two seconds, and then waits for at most two more for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.claims.LeaveAll(e.Leave)
	e.end()
	e.wire.Close()
	return err
}
