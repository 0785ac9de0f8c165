package redlock

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// leaveTimeout is how long a majority may take to say how a claim was found. The
// rest is told in any case.
const leaveTimeout = time.Second

// Leave implements [engine.Engine]. Every master is told; how a claim was found
// is what a majority says.
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.leave(ctx, cs)
}

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

// leave is Leave, also of a closed engine.
func (e *Engine) leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	var bad error
	asked := make([]engine.Claim, 0, len(cs))
	for _, c := range cs {
		if err := e.checkName(c.Name); err != nil {
			bad = err
			continue
		}
		asked = append(asked, c)
	}
	out := make([]engine.Claim, 0, len(asked))
	if len(asked) == 0 {
		return out, bad
	}
	end, err := e.lastTurns(ctx, asked)
	if err != nil {
		return out, err
	}
	defer end()
	notified := e.restores.leave(asked)
	var owed sync.WaitGroup
	owed.Add(len(e.masters))
	e.spawn(func() { owed.Wait(); notified() })
	received, late := make(chan left, len(e.masters)), e.late.of(asked)
	for i, m := range e.masters {
		answered := make([]func(), len(asked))
		for j, c := range asked {
			answered[j] = m.releases.add(e.opts.Prefix + c.Name)
		}
		e.spawn(func() {
			defer owed.Done()
			for _, t := range late {
				t.wait(i)
			}
			m.restored()
			x := e.leaveOn(i, m, asked)
			for _, f := range answered {
				f()
			}
			received <- x
		})
	}
	all := make([]departure, len(asked))
	var ballots []ballot
	timer := time.NewTimer(max(leaveTimeout, e.opts.Timeout) + time.Duration(len(asked))*perLease)
	defer timer.Stop()
	for open := len(asked); open > 0 && len(ballots) < len(e.masters); {
		select {
		case x := <-received:
			ballots = append(ballots, x.ballot)
			open = 0
			for i := range all {
				if x.err == nil {
					all[i].add(x.answers[i])
				}
				if !e.departed(&all[i]) {
					open++
				}
			}
			continue
		case <-timer.C:
		case <-ctx.Done():
		case <-e.life.Done():
		}
		break
	}
	unknown := 0
	for i, d := range all {
		c := engine.Claim{Name: asked[i].Name, ID: asked[i].ID, Permits: engine.Max, Limit: engine.Max, State: engine.Gone}
		// A claim that waits may have become held by a Renew whose answer was
		// lost, so the masters are asked first.
		_, lives, _ := e.waiting.Get(c.ID)
		switch {
		case d.held >= e.majority:
			c.State = engine.Held
		case d.gone <= len(e.masters)-e.majority:
			unknown++
			continue
		case lives:
			c.State = engine.Waiting
		default:
			c.Revoked = d.revoked
		}
		e.waiting.Drop(c.ID)
		e.claims.Drop(c.ID)
		out = append(out, c)
	}
	switch {
	case unknown == 0:
		return out, bad
	case ctx.Err() != nil:
		return out, ctx.Err()
	}
	return out, e.unavailable(ballots)
}

// lastTurns takes the turns of claims that wait, so that no try of one begins while it
// is left: a Renew that has seen it wait would take the lock for nobody. After end it
// waits no more, or it is unknown what became of it.
func (e *Engine) lastTurns(ctx context.Context, cs []engine.Claim) (end func(), err error) {
	var ids, taken []engine.ID
	for _, c := range cs {
		if _, _, waits := e.waiting.Get(c.ID); waits {
			ids = append(ids, c.ID)
		}
	}
	// In one order, or two calls could wait for each other.
	slices.SortFunc(ids, func(a, b engine.ID) int { return bytes.Compare(a[:], b[:]) })
	end = func() {
		for _, id := range taken {
			e.turns.end(id)
		}
	}
	for _, id := range slices.Compact(ids) {
		if err := e.turns.take(ctx, id); err != nil {
			end()
			return nil, err
		}
		taken = append(taken, id)
	}
	return end, nil
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
