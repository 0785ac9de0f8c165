package etcdlock

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
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
	// must leave first. None: the whole queue is read.
	stand    []session.Node
	lease    clientv3.LeaseID // that those hang on
	recorded bool             // its notification is taken away with this question

	ticket uint64 // the queue is read up to there; 0: all of it

	from  int // of the answers: the first of its own
	reads int // the one with its queue

	queue  line
	readAt int64 // the revision of queue
}

// Renew implements [engine.Engine]. The session is kept alive separately. Renew asks
// whether the keys are still there, and who waits, in transactions of many claims. A
// waiting claim costs two keys, however long its queue is.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	start := boottime.Now()
	all := make([]*asked, len(rs))
	for i := range rs {
		all[i] = e.question(&rs[i])
	}
	out, replaced, err := e.renew(ctx, all, start)
	if len(replaced) > 0 { // by another lease, which their queues show now
		more, still, failed := e.renew(ctx, replaced, start)
		if out, err = append(out, more...), errors.Join(err, failed); len(still) > 0 {
			err = errors.Join(err, errReplaced) // of these nothing was learned
		}
	}
	return out, e.explain(err)
}

// renew asks once for each. replaced are those whose lease was another one by the time that
// it was to be proven.
func (e *Engine) renew(ctx context.Context, all []*asked, start time.Duration) (out []engine.Claim, replaced []*asked, err error) {
	answered, err := e.ask(ctx, all)
	for _, a := range answered {
		if i := a.at(); i >= 0 && !a.queue.places[i].revoked {
			a.lease = a.queue.places[i].lease
		}
	}
	// The keys were there; if their leases are alive now, they were all the time.
	proofs := e.proveEach(ctx, answered, start)
	for _, a := range answered {
		p := proofs[a.lease]
		switch {
		case errors.Is(p.err, errLeaseGone):
			a.stand, a.queue = nil, line{}
		case errors.Is(p.err, errReplaced):
			a.stand, a.lease = nil, 0
			replaced = append(replaced, a)
			continue
		case p.err != nil:
			err = errors.Join(err, p.err)
			continue
		}
		out = append(out, e.promoted(a, p.ttl))
	}
	return out, replaced, err
}

// question is what has to be asked for one renewal.
func (e *Engine) question(r *engine.Renewal) *asked {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	c := e.table.known(r.Name, r.ID)
	a := &asked{id: r.ID, name: r.Name, claim: c}
	if c == nil {
		return a
	}
	if c.Phase == session.Waiting && len(c.Ahead) > 0 && c.attended != nil {
		a.stand, a.lease = append([]session.Node{c.node()}, c.Ahead...), c.lease()
	}
	// From here on another notification is news.
	a.ticket, a.recorded, c.recorded = c.Ticket, c.recorded, false
	return a
}

// at is where it stands in the queue that was read, or -1.
func (a *asked) at() int {
	if a.claim == nil {
		return a.queue.with(a.id)
	}
	return a.queue.find(a.claim.key, a.ticket)
}

// class is that of the claim; nil: another client's, or a detached one's.
func (a *asked) class() *class {
	if a.claim == nil || a.claim.Detached {
		return nil
	}
	return a.claim.class
}

// ops are the questions for one claim, but for its queue.
func (a *asked) ops(e *Engine) (ops []clientv3.Op) {
	if a.recorded {
		ops = append(ops, clientv3.OpDelete(e.keys.notification(e.name, a.claim.key)))
	}
	for _, p := range a.stand {
		ops = append(ops, standing(p))
	}
	return ops
}

// questions is one transaction of Renew. Claims of one name share the queue.
type questions struct {
	ops   []clientv3.Op
	lines map[string]int // by name: where in ops
}

// add puts the questions for a claim, if there is room. upTo is how far its queue is
// to be read.
func (q *questions) add(e *Engine, a *asked, upTo uint64) bool {
	ops := a.ops(e)
	var look clientv3.Op
	name := a.name
	if a.claim == nil { // by its ID, which is in the value
		look, name = e.inspect(a.name), a.name+"\x00"
	} else {
		look = e.look(a.name, upTo)
	}
	at, there := q.lines[name]
	reads := len(a.stand) == 0 && !there
	n := len(ops)
	if reads {
		n++
	}
	if len(q.ops) > 0 && len(q.ops)+n > maxOps {
		return false
	}
	a.from, a.reads = len(q.ops), at
	if q.ops = append(q.ops, ops...); reads {
		a.reads = len(q.ops)
		q.lines[name] = a.reads
		q.ops = append(q.ops, look)
	}
	return true
}

// ask puts all questions, in as few transactions as they fit in. It returns those
// that were answered.
func (e *Engine) ask(ctx context.Context, all []*asked) (answered []*asked, err error) {
	for len(all) > 0 {
		upTo := map[string]uint64{} // of each name, as far as the last claim that asks
		for _, a := range all {
			if was, there := upTo[a.name]; a.ticket == 0 || there && was == 0 {
				upTo[a.name] = 0
			} else {
				upTo[a.name] = max(was, a.ticket)
			}
		}
		q := questions{lines: map[string]int{}}
		n := 0
		for n < len(all) && q.add(e, all[n], upTo[all[n].name]) {
			n++
		}
		now, rest := all[:n], all[n:]
		// Asked twice, it may take a later notification away. Its watch has reported that one.
		r, failed := hedge(ctx, e.bounds.hedge, func(ctx context.Context) (r *clientv3.TxnResponse, err error) {
			got, err := e.read(ctx, clientv3.OpTxn(nil, q.ops, nil))
			return got.Txn(), err
		})
		if failed != nil {
			for _, a := range all {
				e.unnoted(a)
			}
			return answered, failed
		}
		queues := map[int]line{}
		for _, i := range q.lines {
			queues[i] = e.keys.read(r.Responses[i].GetResponseRange())
		}
		for _, a := range now {
			i := a.from
			if a.recorded {
				i++
				a.recorded = false
			}
			if len(a.stand) == 0 {
				a.queue, a.readAt = queues[a.reads], r.Header.Revision
				answered = append(answered, a)
				continue
			}
			all := true
			for _, p := range a.stand {
				all = stood(p, r.Responses[i].GetResponseRange()) && all
				i++
			}
			if all {
				answered = append(answered, a)
			} else {
				a.stand, a.lease = nil, 0
				rest = append(rest, a) // once more: then the queue is read
			}
		}
		all = rest
	}
	return answered, nil
}

// unnoted: the notification was perhaps not taken away, so the next Renew does it.
func (e *Engine) unnoted(a *asked) {
	if a.recorded {
		e.table.mu.Lock()
		defer e.table.mu.Unlock()
		a.claim.recorded = true
	}
}

// promoted is what a renewal is answered whose lease may be trusted for so long.
func (e *Engine) promoted(a *asked, ttl time.Duration) (got engine.Claim) {
	if a.claim == nil {
		if got = lookedAt(a.name, a.id, a.queue); got.State != engine.Gone {
			got.TTL = ttl
		}
		return got
	}
	c := a.claim
	got = e.table.report(c, a.stand != nil || e.table.promote(c, a.queue))
	if got.State != engine.Gone {
		got.TTL = min(ttl, c.ttl)
	} else if !got.Revoked {
		e.drop(a.id)
		if a.at() >= 0 {
			e.past.alarm() // another has its key, which nobody knows
		}
	}
	if got.State == engine.Waiting && a.stand == nil {
		e.attend(c, a.queue, a.at(), a.readAt)
	}
	return got
}
