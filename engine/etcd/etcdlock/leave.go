package etcdlock

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

// atOnce is how many transactions go in one, each for one claim and of a few steps.
const atOnce = 32

// left is one claim that is given up.
type left struct {
	got           engine.Claim
	claim         *claim // nil: another client's
	key           string // empty: it is not in the queue
	ticket        uint64 // 0: not known
	written       int64  // the revision that the key has unless it is marked; ticket is known
	value         string // of key, if the ticket is not known
	client        string
	held          bool             // known to be
	ahead         []session.Node   // while all of these stand it waits
	lease         clientv3.LeaseID // of a detached claim
	unused        clientv3.LeaseID // of a Join here that was not answered
	indeterminate bool             // it was not there, which an attempt before may have done
}

// Leave implements [engine.Engine]. It deletes a key only in the life that was meant: by
// its create revision, if that is known. The Leave of a Join that was never answered does
// not know it, and deletes any key with that ID.
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	out, err := e.leaveEach(ctx, cs)
	if err != nil {
		e.abandon(cs) // of which those that have left are not known any more
	}
	return out, e.explain(err)
}

// leaveEach gives claims up, some at a time.
func (e *Engine) leaveEach(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	out := make([]engine.Claim, 0, len(cs))
	var indeterminate error
	for len(cs) > 0 {
		n := min(len(cs), atOnce)
		all := make([]*left, n)
		for i := range all {
			var err error
			if all[i], err = e.leaving(ctx, &cs[i]); err != nil {
				return out, err
			}
		}
		if err := e.leaveAll(ctx, all); err != nil {
			return out, err
		}
		for _, l := range all {
			if l.indeterminate {
				indeterminate = errors.New("the answer to a Leave was lost: the claim has left, but may have ended before")
				continue
			}
			if l.claim != nil && l.got.State == engine.Held {
				e.table.vacate(l.claim)
			}
			e.drop(l.got.ID)
			for _, lease := range []clientv3.LeaseID{l.lease, l.unused} {
				if lease != 0 {
					e.discard(ctx, lease)
				}
			}
			out = append(out, l.got)
		}
		cs = cs[n:]
	}
	return out, indeterminate
}

// leaving finds the key of a claim: it is known of one's own, and another
// client's, as after Lease.Detach, is in its queue.
func (e *Engine) leaving(ctx context.Context, asked *engine.Claim) (*left, error) {
	l := &left{got: engine.Claim{Name: asked.Name, ID: asked.ID, State: engine.Gone}, client: e.name}
	e.table.mu.Lock()
	if c := e.table.known(asked.Name, asked.ID); c != nil {
		defer e.table.mu.Unlock()
		c.givenUp, l.claim = true, c
		l.key, l.ticket, l.written, l.value, l.held = c.key, c.Ticket, c.lastWritten(), c.value, c.Phase.Holds()
		if c.Phase == session.Waiting && len(c.Ahead) <= maxAhead {
			l.ahead = c.Ahead
		}
		if c.Detached {
			l.lease = c.lease()
		}
		c.unattend()
		return l, nil
	}
	if c := e.table.m.Claims[asked.ID]; c != nil && c.Name == asked.Name && c.Detached {
		l.unused = c.lease()
	}
	e.table.mu.Unlock()
	r, err := e.read(ctx, e.inspect(asked.Name))
	if err != nil {
		return nil, err
	}
	in := e.keys.read((*pb.RangeResponse)(r.Get()))
	if i := in.with(asked.ID); i >= 0 {
		p := &in.places[i]
		l.key, l.ticket, l.written, l.client = p.key, p.ticket, int64(p.ticket), p.client
		if !isSession(p.lease) { // a detached one's, on which nothing else hangs
			l.lease = p.lease
		}
		if l.lease == l.unused {
			l.unused = 0
		}
	}
	return l, nil
}

// leaveAll gives claims up in one transaction, and notifications in which state each was
// found. What was not found as it should be may be marked by Revoke: then it is Gone
// already, and still has to give up its room.
func (e *Engine) leaveAll(ctx context.Context, all []*left) error {
	var ops []clientv3.Op
	var asked []*left
	for _, l := range all {
		if l.key != "" {
			ops, asked = append(ops, e.leaveOp(l)), append(asked, l)
		}
	}
	var answers []answer
	before := false // an attempt may have been carried out
	err := e.propose(ctx, func(ctx context.Context, patience time.Duration) (err error) {
		// A second attempt cannot tell how the first found the claim, if that was
		// carried out; and no trust hangs on when a Leave is answered.
		answers, err = e.txns(ctx, asked, ops, max(patience, e.bounds.most))
		before = before || indeterminate(err)
		return err
	})
	if err != nil {
		return err
	}
	var marked []clientv3.Op
	var changed []*left // the claims of marked
	for i, l := range asked {
		a := &answers[i]
		if len(l.ahead) > 0 && !a.succeeded {
			t := a.responses[0].GetResponseTxn()
			a.succeeded, a.responses = t.Succeeded, t.Responses
			l.ahead = nil
		}
		switch {
		case !a.succeeded:
			l.indeterminate = before
			// Marked, or attached to another lease while this was asked: its queue says which.
			seen := append([]clientv3.Op{e.look(l.got.Name, l.ticket)}, e.leaveOps(l)...)
			marked, changed = append(marked, clientv3.OpTxn([]clientv3.Cmp{l.there()}, seen, nil)), append(changed, l)
		case l.held:
			l.got.State = engine.Held
		case len(l.ahead) > 0:
			l.got.State = engine.Waiting
		default:
			l.found(e.keys.read(a.first()))
		}
	}
	before = false
	return e.propose(ctx, func(ctx context.Context, patience time.Duration) error {
		answers, err := e.txns(ctx, changed, marked, patience)
		for i := range answers {
			if err == nil && answers[i].succeeded {
				changed[i].found(e.keys.read(answers[i].first()))
			} else if err == nil {
				changed[i].indeterminate = changed[i].indeterminate || before
			}
		}
		before = before || indeterminate(err)
		return err
	})
}

// found takes in the queue in which the claim stood when it was deleted.
func (l *left) found(in line) {
	switch i := in.find(l.key, l.ticket); {
	case i < 0: // of another name, or unreadable: it is gone now
	case in.places[i].revoked:
		l.got.Revoked = true
	case i < in.held:
		l.got.State = engine.Held
	default:
		l.got.State = engine.Waiting
	}
}

// txns are the answers to some transactions in one, each about the claim at its place: to
// a lone one, with those of other callers.
func (e *Engine) txns(ctx context.Context, of []*left, ops []clientv3.Op, patience time.Duration) ([]answer, error) {
	if len(ops) != 1 {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return e.inOne(ctx, ops)
	}
	a := e.commit(ctx, &call{name: of[0].got.Name, op: ops[0], leaves: true, patience: patience})
	return []answer{a}, a.err
}

// there: the claim stands, in the life that is meant.
func (l *left) there() clientv3.Cmp {
	if l.ticket == 0 {
		return clientv3.Compare(clientv3.Value(l.key), "=", l.value)
	}
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", int64(l.ticket))
}

func (e *Engine) leaveOps(l *left) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(l.key), clientv3.OpDelete(e.keys.notification(l.client, l.key))}
}

// maxAhead bounds how many claims ahead of one are asked for when it leaves.
const maxAhead = 8

// leaveOp gives one claim up that is not marked. A key that nobody wrote again has
// the revision that it was created at, so that one comparison says that it is there,
// in that life, and as it was made. Whether one that waited holds by now is seen from
// those that it waits for, and only if they do not all stand from its queue.
func (e *Engine) leaveOp(l *left) clientv3.Op {
	unmarked := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(l.key), "=", l.written)}
	if l.ticket == 0 {
		unmarked = []clientv3.Cmp{clientv3.Compare(clientv3.Version(l.key), "=", 1), l.there()}
	}
	ops := e.leaveOps(l)
	if l.held {
		return clientv3.OpTxn(unmarked, ops, nil)
	}
	seen := clientv3.OpTxn(unmarked, append([]clientv3.Op{e.look(l.got.Name, l.ticket)}, ops...), nil) // the queue as it was found
	if len(l.ahead) == 0 {
		return seen
	}
	waits := slices.Clone(unmarked)
	for _, p := range l.ahead {
		waits = append(waits, stands(p))
	}
	return clientv3.OpTxn(waits, ops, []clientv3.Op{seen})
}
