package redlock

import (
	"context"
	"fmt"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// batch is how many leases one script call renews.
const batch = 128

// perLease is what a renewal adds to the time a master may take for a batch, many
// times of what it takes.
const perLease = 50 * time.Microsecond

// extension is what the masters said of one claim.
type extension struct {
	lefts   []time.Duration // of those that extended it
	gone    int
	revoked bool
	wanted  bool // somebody else waits
	stamp   uint64
}

// extended is what one master said, by renewal; nothing where a call failed.
type extended struct {
	ballot
	values []int64 // three for each
	known  []bool
	wanted map[int]bool // somebody else waits
}

// Renew implements [engine.Engine]. A claim is extended if a majority extends it, and gone
// if a majority cannot have it.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	start := boottime.Now()
	r := e.restores.begin(start) // before a master is asked: see restorations.begin
	shortest := rs[0].Want
	for _, r := range rs {
		shortest = min(shortest, r.Want)
	}
	received := ask(e, func(i int, m *master) extended { return e.extendOn(i, m, rs) })
	all := make([]extension, len(rs))
	var ballots []ballot
	var said []extended
	timer := time.NewTimer(e.opts.timeout(shortest) + time.Duration(len(rs))*perLease)
	defer timer.Stop()
	err := receive(ctx, e, received, timer.C, func(x extended) bool {
		ballots, said = append(ballots, x.ballot), append(said, x)
		known := true
		for i := range all {
			x.add(i, &all[i])
			known = known && e.settled(&all[i])
		}
		return known
	})
	out := make([]engine.Claim, 0, len(rs))
	held := make([]engine.Claim, len(rs))
	for i, x := range all {
		c := engine.Claim{Name: rs[i].Name, ID: rs[i].ID, Ticket: x.stamp, Permits: engine.Max, Limit: engine.Max}
		switch {
		case !e.settled(&x):
			continue
		case len(x.lefts) >= e.majority:
			c.State, c.Contended, c.TTL = engine.Held, x.wanted, agreed(x.lefts, e.majority)
			held[i] = c
		default:
			c.State, c.Revoked = engine.Gone, x.revoked
		}
		out = append(out, c)
	}
	if len(out) > 0 {
		r.held = held
		e.spawn(func() { e.restore(r, said, received) })
	} else {
		e.restores.end(r)
	}
	return out, e.rest(len(out) == len(rs), err, ballots)
}

// rest is the error of what is not known of a batch: err, if that is why nobody was
// waited for any longer.
func (e *Engine) rest(all bool, err error, ballots []ballot) error {
	switch {
	case all:
		return nil
	case err != nil:
		return err
	}
	return e.unavailable(ballots)
}

// settled: no other answer can change what is known.
func (e *Engine) settled(x *extension) bool {
	return len(x.lefts) >= e.majority || x.gone > len(e.masters)-e.majority
}

func (x *extended) add(i int, to *extension) {
	if x.known == nil || !x.known[i] {
		return
	}
	v := x.values[3*i:]
	if engine.State(v[0]) == engine.Held {
		to.lefts = append(to.lefts, time.Duration(v[2])*time.Millisecond)
		to.stamp = max(to.stamp, uint64(v[1]))
		to.wanted = to.wanted || x.wanted[i]
		return
	}
	to.gone++
	to.revoked = to.revoked || v[2] == 1
}

// extendOn asks one master to extend claims.
func (e *Engine) extendOn(i int, m *master, rs []engine.Renewal) (x extended) {
	x.master = i
	var calls []redisconn.Call
	for from := 0; from < len(rs); from += batch {
		var c redisconn.Call
		for _, r := range rs[from:min(from+batch, len(rs))] {
			c.Keys = append(c.Keys, e.keys(r.Name)[:2]...)
			c.Args = append(c.Args, r.ID.Secret(), parts.Millis(r.Want))
		}
		for _, r := range rs[from:min(from+batch, len(rs))] {
			c.Args = append(c.Args, parts.Flag(e.hears(m, r.Name)))
		}
		calls = append(calls, c)
	}
	var answers []redisconn.Answer
	if answers, x.err = m.vote(e.life, e.scripts.renew, calls); x.err != nil {
		return x
	}
	x.wanted = map[int]bool{}
	x.values, x.known = make([]int64, 3*len(rs)), make([]bool, len(rs))
	for j, a := range answers {
		from := j * batch
		n := min(batch, len(rs)-from)
		v, err := a.AsIntSlice()
		if err == nil && (len(v) <= 3*n || len(v) > 4*n+1) {
			err = fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %d values for %d renewals", len(v), n)
		}
		if err != nil {
			x.err = redisconn.Explain(err, calls[j].Keys[0])
			continue
		}
		copy(x.values[3*from:], v[:3*n])
		x.clock = time.Duration(v[3*n])*time.Microsecond - boottime.Now()
		for k := range n {
			x.known[from+k] = true
		}
		for _, k := range v[3*n+1:] {
			x.wanted[from+int(k)-1] = true
		}
	}
	return x
}
