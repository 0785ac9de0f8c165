package etcdlock

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// maxOps is how much one transaction asks for. etcd's own bound is 128 unless it
// is set.
const maxOps = 100

// asked is one renewal under way.
type asked struct {
	id    engine.ID
	name  string
	claim *claim // nil: another client's, as after Lease.Detach

	// stand do, for as long as a waiting claim waits: itself, and those of which one
	// must leave first. None: the whole line is read.
	stand []place
	lease clientv3.LeaseID // that those hang on
	told  bool             // its note is taken away with this question

	line line
	at   int64 // the revision at which line was read
}

// Renew implements [engine.Engine]. The session is kept alive beside it; what is
// asked here is whether the keys are there still, and who waits, in transactions
// of many claims. A claim that waits costs two keys, however long its line is.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d", len(rs), engine.MaxBatch)
	}
	for i := range rs {
		if err := engine.CheckTTL(rs[i].Want); err != nil {
			return nil, err
		}
	}
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	start := boottime.Now()
	all := make([]*asked, len(rs))
	for i := range rs {
		all[i] = e.question(&rs[i])
	}
	answered, err := e.ask(ctx, all)
	out := make([]engine.Claim, 0, len(rs))
	for _, a := range answered {
		if i := a.line.find(a.who()); i >= 0 && !a.line[i].evicted {
			a.lease = a.line[i].lease
		}
	}
	// The keys were there; if their leases are alive now, they were all the time.
	proof := e.proveEach(ctx, answered, start+e.ttl)
	for _, a := range answered {
		switch failed := proof[a.lease]; {
		case errors.Is(failed, errLeaseGone):
			a.stand, a.line = nil, nil
		case failed != nil:
			err = errors.Join(err, failed)
			continue
		}
		out = append(out, e.settled(a))
	}
	return out, explain(err)
}

// question is what has to be asked for one renewal.
func (e *Engine) question(r *engine.Renewal) *asked {
	a := &asked{id: r.ID, name: r.Name, claim: e.table.get(r.ID)}
	if a.claim == nil || a.claim.name != r.Name {
		a.claim = nil
		return a
	}
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	if a.claim.state == engine.Waiting && len(a.claim.blockers) > 0 && a.claim.attended != nil {
		a.stand, a.lease = append([]place{{key: a.claim.key, ticket: a.claim.ticket}}, a.claim.blockers...), a.claim.lease
	}
	// From here on another note is news.
	a.told, a.claim.told = a.claim.told, false
	return a
}

// who is the claim, for finding it.
func (a *asked) who() *claim {
	if a.claim == nil {
		return &claim{name: a.name, id: a.id}
	}
	return a.claim
}

func (a *asked) ops(e *Engine) (ops []clientv3.Op) {
	if a.told {
		ops = append(ops, clientv3.OpDelete(e.keys.note(e.name, a.claim.key)))
	}
	switch {
	case len(a.stand) > 0:
		for _, p := range a.stand {
			ops = append(ops, p.standing())
		}
	case a.claim == nil:
		ops = append(ops, e.inspect(a.name))
	default:
		ops = append(ops, e.look(a.name))
	}
	return ops
}

// ask puts all questions, in as few transactions as they fit in. It returns those
// that were answered.
func (e *Engine) ask(ctx context.Context, all []*asked) (answered []*asked, err error) {
	for len(all) > 0 {
		var ops []clientv3.Op
		n := 0
		for n < len(all) {
			next := all[n].ops(e)
			if n > 0 && len(ops)+len(next) > maxOps {
				break
			}
			ops = append(ops, next...)
			n++
		}
		now, rest := all[:n], all[n:]
		var r *clientv3.TxnResponse
		failed := e.again(ctx, func(ctx context.Context) (err error) {
			r, err = e.client.Txn(ctx).Then(ops...).Commit()
			return err
		})
		if failed != nil {
			for _, a := range all {
				e.untold(a)
			}
			return answered, failed
		}
		i := 0
		for _, a := range now {
			if a.told {
				i++
				a.told = false
			}
			if len(a.stand) == 0 {
				a.line, a.at = e.keys.read(r.Responses[i].GetResponseRange().Kvs), r.Header.Revision
				i++
				answered = append(answered, a)
				continue
			}
			all := true
			for _, p := range a.stand {
				all = p.stood(r.Responses[i].GetResponseRange()) && all
				i++
			}
			if all {
				answered = append(answered, a)
			} else {
				a.stand, a.lease = nil, 0
				rest = append(rest, a) // once more: then the line is read
			}
		}
		all = rest
	}
	return answered, nil
}

// untold: the note was perhaps not taken away, so the next Renew does it.
func (e *Engine) untold(a *asked) {
	if a.told {
		e.table.mu.Lock()
		defer e.table.mu.Unlock()
		a.claim.told = true
	}
}

// settled is what a renewal is answered.
func (e *Engine) settled(a *asked) (got engine.Claim) {
	switch {
	case a.stand != nil:
		e.table.mu.Lock()
		c := a.claim
		got = engine.Claim{Name: c.name, ID: c.id, Ticket: c.ticket, Units: c.units, Limit: c.limit, State: c.state, Evicted: c.evicted}
		e.table.mu.Unlock()
	case a.claim == nil:
		got, _ = new(table).settle(a.who(), a.line)
	default:
		got, _ = e.table.settle(a.claim, a.line)
	}
	switch {
	case got.State != engine.Gone:
		got.TTL = e.ttl
	case !got.Evicted:
		e.drop(a.id)
	}
	if got.State == engine.Waiting && a.claim != nil && a.stand == nil {
		e.attend(a.claim, a.line, a.at)
	}
	return got
}
