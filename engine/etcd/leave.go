package etcdlock

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
)

// leavesAtOnce is how many claims one transaction gives up: each is a transaction
// in it, of up to three steps.
const leavesAtOnce = 32

// left is one claim that is given up.
type left struct {
	got    engine.Claim
	key    string // empty: it is not in line
	ticket uint64 // 0: not known
	client string
	held   bool             // known to be
	lease  clientv3.LeaseID // of a detached claim
}

// Leave implements [engine.Engine]. A key is deleted only in the life that was
// meant: by its create revision, where that is known. What does not know it, a
// Leave of a Join that was never answered, means whatever is there by that ID.
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d", len(cs), engine.MaxBatch)
	}
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	out := make([]engine.Claim, 0, len(cs))
	for len(cs) > 0 {
		n := min(len(cs), leavesAtOnce)
		all := make([]*left, n)
		for i := range all {
			var err error
			if all[i], err = e.leaving(ctx, &cs[i]); err != nil {
				return out, explain(err)
			}
		}
		if err := e.leaveAll(ctx, all); err != nil {
			return out, explain(err)
		}
		for _, l := range all {
			e.table.forget(l.got.ID)
			if l.lease != 0 {
				// Nothing else hangs on it. If this fails, it ends by its TTL.
				_, _ = e.client.Revoke(ctx, l.lease)
			}
			out = append(out, l.got)
		}
		cs = cs[n:]
	}
	return out, nil
}

// leaving finds the key of a claim: it is known of one's own, and another
// client's, as after Lease.Detach, is in its line.
func (e *Engine) leaving(ctx context.Context, asked *engine.Claim) (*left, error) {
	l := &left{got: engine.Claim{Name: asked.Name, ID: asked.ID, State: engine.Gone}, client: e.name}
	if c := e.table.get(asked.ID); c != nil && c.name == asked.Name {
		e.table.mu.Lock()
		defer e.table.mu.Unlock()
		l.key, l.ticket, l.held = c.key, c.ticket, c.state == engine.Held
		if c.detached {
			l.lease = c.lease
		}
		c.unattend()
		return l, nil
	}
	r, err := e.client.Do(ctx, e.look(asked.Name))
	if err != nil {
		return nil, err
	}
	in := e.keys.read(r.Get().Kvs)
	if i := in.find(asked.ID); i >= 0 {
		l.key, l.ticket, l.client = in[i].key, in[i].ticket, in[i].client
	}
	return l, nil
}

// leaveAll gives claims up in one transaction, and notes in which state each was
// found.
func (e *Engine) leaveAll(ctx context.Context, all []*left) error {
	var ops []clientv3.Op
	for _, l := range all {
		if l.key != "" {
			ops = append(ops, e.leaveOp(l))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	answers, err := e.txns(ctx, ops)
	if err != nil {
		return err
	}
	i := 0
	for _, l := range all {
		if l.key == "" {
			continue
		}
		answer := answers[i]
		i++
		switch {
		case !answer.Succeeded: // gone, or marked by Evict
		case l.held:
			l.got.State = engine.Held
		default:
			in := e.keys.read(answer.Responses[0].GetResponseRange().Kvs)
			l.got.State = engine.Waiting
			if in.find(l.got.ID) < in.held() {
				l.got.State = engine.Held
			}
		}
	}
	return nil
}

// txns are the answers to some transactions in one: to a lone one without another
// around it.
func (e *Engine) txns(ctx context.Context, ops []clientv3.Op) (answers []*pb.TxnResponse, err error) {
	if len(ops) == 1 {
		r, err := e.client.Do(ctx, ops[0])
		return []*pb.TxnResponse{(*pb.TxnResponse)(r.Txn())}, err
	}
	r, err := e.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, err
	}
	for _, one := range r.Responses {
		answers = append(answers, one.GetResponseTxn())
	}
	return answers, nil
}

// leaveOp gives one claim up. A key that nobody wrote again has the revision that
// it was created at: one comparison says that it is there, in that life, and not
// marked by Evict.
func (e *Engine) leaveOp(l *left) clientv3.Op {
	there, unmarked := clientv3.Compare(clientv3.CreateRevision(l.key), ">", 0), clientv3.Compare(clientv3.Version(l.key), "=", 1)
	if l.ticket > 0 {
		there = clientv3.Compare(clientv3.CreateRevision(l.key), "=", int64(l.ticket))
		unmarked = clientv3.Compare(clientv3.ModRevision(l.key), "=", int64(l.ticket))
	}
	gone := []clientv3.Op{clientv3.OpDelete(l.key), clientv3.OpDelete(e.keys.note(l.client, l.got.ID))}
	found := gone
	if !l.held {
		found = append([]clientv3.Op{e.look(l.got.Name)}, gone...) // the line as it was found
	}
	marked := []clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{there}, gone, nil)}
	return clientv3.OpTxn([]clientv3.Cmp{unmarked}, found, marked)
}
