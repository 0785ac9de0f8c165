package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// leaveTimeout is how long a majority may take to say how a claim was found. The
// rest is told in any case.
const leaveTimeout = time.Second

// departure is what the masters said of one claim that was left.
type departure struct {
	held, gone int
	revoked    bool
}

// left is what one master said of all of them.
type left struct {
	ballot
	answers []redisconn.Answer
}

// Leave implements [engine.Engine]. It asks every master; a majority decides in which
// state the claim was found.
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	end, err := e.turns.last(ctx, cs)
	if err != nil {
		return nil, err
	}
	defer end()
	notified := e.restores.leave(cs)
	var owed atomic.Int32
	owed.Store(int32(len(e.masters)))
	answered := make([][]func(), len(e.masters))
	for i, m := range e.masters {
		for _, c := range cs {
			answered[i] = append(answered[i], m.releases.add(e.opts.Prefix+c.Name))
		}
	}
	late := e.late.of(cs)
	received := ask(e, func(i int, m *master) left {
		defer func() {
			if owed.Add(-1) == 0 {
				notified()
			}
		}()
		for _, t := range late {
			t.wait(i)
		}
		m.restored()
		x := e.leaveOn(i, m, cs)
		for _, f := range answered[i] {
			f()
		}
		return x
	})
	all := make([]departure, len(cs))
	var ballots []ballot
	timer := time.NewTimer(max(leaveTimeout, e.opts.Timeout) + time.Duration(len(cs))*perLease)
	defer timer.Stop()
	err = receive(ctx, e, received, timer.C, func(x left) bool {
		ballots = append(ballots, x.ballot)
		known := true
		for i := range all {
			if x.err == nil {
				all[i].add(x.answers[i])
			}
			known = known && e.departed(&all[i])
		}
		return known
	})
	out := make([]engine.Claim, 0, len(cs))
	for i, d := range all {
		if !e.departed(&d) {
			continue
		}
		c := engine.Claim{Name: cs[i].Name, ID: cs[i].ID, Permits: engine.Max, Limit: engine.Max, State: engine.Gone, Revoked: d.revoked}
		if d.held >= e.majority {
			c.State, c.Revoked = engine.Held, false
		}
		e.ears.Forget(c.ID)
		out = append(out, c)
	}
	return out, e.rest(len(out) == len(cs), err, ballots)
}

// departed: it is known how the claim was found.
func (e *Engine) departed(d *departure) bool {
	return d.held >= e.majority || d.gone > len(e.masters)-e.majority
}

func (d *departure) add(a redisconn.Answer) {
	v, err := a.AsIntSlice()
	switch {
	case errors.Is(redisconn.Explain(err, ""), redisconn.ErrForeign):
		d.gone++
	case err != nil || len(v) != 2:
	case engine.State(v[0]) == engine.Held:
		d.held++
	case a.Indeterminate != nil:
		// It is gone, but perhaps by the first attempt.
	default:
		d.gone++
		d.revoked = d.revoked || v[1] == 1
	}
}

// leaveOn tells one master that claims are left.
func (e *Engine) leaveOn(i int, m *master, cs []engine.Claim) (x left) {
	x.master = i
	calls := make([]redisconn.Call, len(cs))
	for j, c := range cs {
		calls[j] = redisconn.Call{Keys: e.keys(c.Name), Args: []string{c.ID.Secret(), "", e.channel, c.Name}}
	}
	x.answers, x.err = m.calls(e.life, true, e.scripts.leave, calls)
	return x
}
