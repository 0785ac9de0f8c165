package redislock

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
	"leasehold/engine/redis/internal/wire"
)

// Engine is one client of a Redis, in the lines layout.
type Engine struct {
	wire     *wire.Client
	group    group
	scripts  scripts
	prefix   string
	channel  string // where this engine's claims are told of changes
	replicas int
	claims   joined.Claims

	closed atomic.Bool
	life   context.Context // ends when Close has left the claims
	end    context.CancelFunc
}

var _ engine.Engine = (*Engine)(nil)

// batch is how many leases one script call renews: enough for a hundred leases
// a request, few enough not to keep other clients waiting.
const batch = 128

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        engine.Exclusive | engine.Shared | engine.Units,
		Fencing:      engine.FencingMemory,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashTTL,
		Detach:       true,
		SeesWaiters:  true,
	}
	if e.wire.FailsOver() {
		// A replica is behind its primary; no number of acknowledgements keeps
		// Sentinel from promoting one that missed a write.
		g.Failover = engine.FailoverMayDouble
	}
	return g
}

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
func (e *Engine) joining(r *engine.Request) wire.Call {
	args := []string{e.packed(r), strconv.FormatInt(r.WaitTTL.Microseconds(), 10)}
	switch {
	case r.NoWait:
		args = append(args, "n")
	case r.Replaces != (engine.ID{}):
		args = append(args, string(r.Replaces[:]))
	}
	return wire.Call{Keys: []string{e.key(r.Name)}, Args: args}
}

// leaving is the call that leaves a claim.
func (e *Engine) leaving(c *engine.Claim) wire.Call {
	return wire.Call{Keys: []string{e.key(c.Name)}, Args: []string{string(c.ID[:])}}
}

// packed is the part of a claim's stored form that does not depend on the
// server: see join.lua.
func (e *Engine) packed(r *engine.Request) string {
	flags := byte(1) // held, if nobody is in line
	if r.Detached {
		flags |= 2
	}
	b := append(make([]byte, 0, 128), flags)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Units))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Limit))
	b = append(b, r.ID[:]...)
	b = append(b, byte(len(e.channel)))
	b = append(b, e.channel...)
	return string(r.Owner.AppendText(b))
}

func (e *Engine) join(ctx context.Context, ask wire.Call, r *engine.Request) (engine.Claim, error) {
	key := ask.Keys[0]
	m, err := e.asked(ctx, ask).ToMessage()
	if err != nil {
		return engine.Claim{}, wire.Explain(err, key)
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
		return engine.Claim{}, wire.Foreign(key)
	case b == "T":
		return engine.Claim{}, engine.Refuse("the next ticket is above %d: the clock of this Redis is wrong", uint64(engine.MaxTicket))
	case len(b) == 5 && b[0] == 'L':
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: int32(u32(b[1:])), Want: r.Limit}
	case len(b) == 5 && b[0] == 'C':
		return engine.Claim{}, engine.Refuse("%d claims are in line already, which is the most", u32(b[1:]))
	}
	return engine.Claim{}, fmt.Errorf("redis: not an answer of ours: %d bytes", len(b))
}

// settled is the usual answer to a Join: a ticket of who holds, minus a ticket of
// who waits behind others.
func settled(ticket int64, r *engine.Request) engine.Claim {
	c := engine.Claim{Ticket: uint64(ticket), Units: r.Units, Limit: r.Limit, State: engine.Held, TTL: r.WaitTTL.Truncate(time.Microsecond)}
	if ticket < 0 {
		c.Ticket, c.State = uint64(-ticket), engine.Waiting
	}
	return c
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	var bad error
	groups := map[byte][]engine.Renewal{}
	for _, r := range rs {
		err := engine.CheckName(r.Name)
		if err == nil {
			err = engine.CheckTTL(r.Want)
		}
		if err != nil {
			bad = err
			continue
		}
		var group byte // one script call may not touch two slots of a Cluster
		if e.wire.Cluster() {
			group = bucket(r.Name)
		}
		groups[group] = append(groups[group], r)
	}
	var calls []wire.Call
	var renewals [][]engine.Renewal
	for _, group := range groups {
		for len(group) > 0 {
			n := min(batch, len(group))
			calls = append(calls, e.renewal(group[:n]))
			renewals = append(renewals, group[:n])
			group = group[n:]
		}
	}
	out := make([]engine.Claim, 0, len(rs))
	err := e.renew(ctx, calls, renewals, &out)
	if err == nil {
		err = bad
	}
	return out, err
}

func (e *Engine) renewal(rs []engine.Renewal) (c wire.Call) {
	for _, r := range rs {
		c.Keys = append(c.Keys, e.key(r.Name))
		c.Args = append(c.Args, string(binary.BigEndian.AppendUint64(r.ID[:], uint64(r.Want.Microseconds()))))
	}
	return c
}

// renew appends what was learned and returns the first error. A shard that is
// away costs only its own claims.
func (e *Engine) renew(ctx context.Context, calls []wire.Call, renewals [][]engine.Renewal, out *[]engine.Claim) error {
	var first error
	for i, result := range e.renewed(ctx, calls) {
		rs := renewals[i]
		b, err := result.ToString()
		switch {
		case err != nil && len(rs) > 1 && wire.Apart(err):
			// The slot is moving and its keys are in two places.
			var singles []wire.Call
			var each [][]engine.Renewal
			for j := range rs {
				singles = append(singles, e.renewal(rs[j:j+1]))
				each = append(each, rs[j:j+1])
			}
			err = e.renew(ctx, singles, each, out)
		case err != nil:
			err = wire.Explain(err, calls[i].Keys[0])
		case len(b) != said*len(rs):
			err = fmt.Errorf("redis: not an answer of ours: %d bytes for %d renewals", len(b), len(rs))
		default:
			for j, r := range rs {
				c, _ := decode(b[said*j:])
				c.Name, c.ID = r.Name, r.ID
				if c.State == engine.Gone {
					e.claims.Drop(r.ID)
				} else {
					e.claims.Extend(r.ID, c.TTL)
				}
				*out = append(*out, c)
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	if len(cs) != 1 {
		return e.leave(ctx, cs)
	}
	if err := engine.CheckName(cs[0].Name); err != nil {
		return nil, err
	}
	c := e.leaving(&cs[0])
	left, err := e.left(&cs[0], c, e.group.run(ctx, e.scripts.leave, c, true))
	if err != nil {
		return nil, err
	}
	return []engine.Claim{left}, nil
}

// leave is Leave of several, also of a closed engine.
func (e *Engine) leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var first error
	calls := make([]wire.Call, 0, len(cs))
	asked := make([]*engine.Claim, 0, len(cs))
	for i := range cs {
		if err := engine.CheckName(cs[i].Name); err != nil {
			first = err
			continue
		}
		calls = append(calls, e.leaving(&cs[i]))
		asked = append(asked, &cs[i])
	}
	out := make([]engine.Claim, 0, len(asked))
	for i, a := range e.wire.CallMany(ctx, e.scripts.leave, calls) {
		c, err := e.left(asked[i], calls[i], a)
		if err == nil {
			out = append(out, c)
		} else if first == nil {
			first = err
		}
	}
	return out, first
}

// left reads what became of it.
func (e *Engine) left(asked *engine.Claim, c wire.Call, a wire.Answer) (left engine.Claim, err error) {
	b, err := a.ToString()
	if err != nil {
		return left, wire.Explain(err, c.Keys[0])
	}
	left, ok := found(b)
	switch {
	case !ok:
		return left, fmt.Errorf("redis: not an answer of ours: %d bytes", len(b))
	case left.State == engine.Gone && a.Unsure != nil:
		// It is gone, but perhaps by the first attempt: whether it was held until
		// then nobody can say, and Unlock must not guess.
		e.claims.Drop(asked.ID)
		return left, wire.Explain(a.Unsure, c.Keys[0])
	}
	left.Name, left.ID = asked.Name, asked.ID
	e.claims.Drop(left.ID)
	return left, nil
}

// Evict implements [engine.Engine].
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	if ticket > engine.MaxTicket {
		return engine.ErrNoClaim
	}
	at := "0"
	if now {
		at = "1"
	}
	key := e.key(name)
	a := e.wire.Call(ctx, e.scripts.evict, wire.Call{Keys: []string{key}, Args: []string{strconv.FormatUint(ticket, 10), at}})
	b, err := a.ToString()
	switch {
	case err != nil:
		return wire.Explain(err, key)
	case b == "1":
		return nil
	case b == "0" && a.Unsure != nil:
		return wire.Explain(a.Unsure, key) // perhaps the first attempt ended it
	case b == "0":
		return engine.ErrNoClaim
	}
	return wire.Foreign(key)
}

// Close implements [engine.Engine]: it leaves every claim that is not detached,
// for at most two seconds, and then waits for at most five for connections that
// are being made or do not answer.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.claims.LeaveAll(e.leave)
	e.end()
	e.wire.Close()
	return err
}
