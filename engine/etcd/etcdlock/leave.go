package etcdlock

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
)

// atOnce is how many transactions go in one, each for one claim and of a few steps.
const atOnce = 32

// left is one claim that is given up.
type left struct {
	got    engine.Claim
	key    string // empty: it is not in line
	ticket uint64 // 0: not known
	client string
	held   bool             // known to be
	lease  clientv3.LeaseID // of a detached claim
	unsure bool             // it was not there, which an attempt before may have done
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
	out, err := e.leaveEach(ctx, cs)
	if err != nil {
		e.abandon(cs) // of which those that have left are not known any more
	}
	return out, explain(err)
}

// leaveEach gives claims up, some at a time.
func (e *Engine) leaveEach(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	out := make([]engine.Claim, 0, len(cs))
	var unsure error
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
			if l.unsure {
				unsure = errors.New("the answer to a Leave was lost; the claim has left, but whether it still stood then is not known")
				continue
			}
			e.drop(l.got.ID)
			if l.lease != 0 {
				// Nothing else hangs on it. If this fails, it ends by its TTL.
				_, _ = e.client.Revoke(ctx, l.lease)
			}
			out = append(out, l.got)
		}
		cs = cs[n:]
	}
	return out, unsure
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
// found. What was not found as it should be may be marked by Evict: then it is Gone
// already, and still has to give up its room.
func (e *Engine) leaveAll(ctx context.Context, all []*left) error {
	var ops []clientv3.Op
	var asked []*left
	for _, l := range all {
		if l.key != "" {
			ops, asked = append(ops, e.leaveOp(l)), append(asked, l)
		}
	}
	var answers []*pb.TxnResponse
	before := false // an attempt may have been carried out
	err := e.again(ctx, func(ctx context.Context) (err error) {
		answers, err = e.txns(ctx, ops)
		before = before || unclear(err)
		return err
	})
	if err != nil {
		return err
	}
	var marked []clientv3.Op
	for i, l := range asked {
		switch {
		case !answers[i].Succeeded:
			l.unsure = before
			marked = append(marked, clientv3.OpTxn([]clientv3.Cmp{l.there()}, e.leaveOps(l), nil))
		case l.held:
			l.got.State = engine.Held
		default:
			in := e.keys.read(answers[i].Responses[0].GetResponseRange().Kvs)
			l.got.State = engine.Waiting
			if in.find(l.got.ID) < in.held() {
				l.got.State = engine.Held
			}
		}
	}
	_, err = e.txns(ctx, marked)
	return err
}

// txns are the answers to some transactions in one: to a lone one without another
// around it.
func (e *Engine) txns(ctx context.Context, ops []clientv3.Op) (answers []*pb.TxnResponse, err error) {
	switch len(ops) {
	case 0:
		return nil, nil
	case 1:
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

// there: the claim stands, in the life that is meant.
func (l *left) there() clientv3.Cmp {
	if l.ticket == 0 {
		return clientv3.Compare(clientv3.CreateRevision(l.key), ">", 0)
	}
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", int64(l.ticket))
}

func (e *Engine) leaveOps(l *left) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(l.key), clientv3.OpDelete(e.keys.note(l.client, l.got.ID))}
}

// leaveOp gives one claim up that is not marked. A key that nobody wrote again has
// the revision that it was created at, so that one comparison says that it is there,
// in that life, and as it was made.
func (e *Engine) leaveOp(l *left) clientv3.Op {
	unmarked := clientv3.Compare(clientv3.Version(l.key), "=", 1)
	if l.ticket > 0 {
		unmarked = clientv3.Compare(clientv3.ModRevision(l.key), "=", int64(l.ticket))
	}
	ops := e.leaveOps(l)
	if !l.held {
		ops = append([]clientv3.Op{e.look(l.got.Name)}, ops...) // the line as it was found
	}
	return clientv3.OpTxn([]clientv3.Cmp{unmarked}, ops, nil)
}
