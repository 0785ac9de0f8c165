package etcdlock

import (
	"context"
	"iter"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
)

// Queue implements [engine.Engine]. Every claim is shown with the whole TTL: etcd
// says only lease by lease what is left.
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Queue{}, err
	}
	if err := e.enter(ctx); err != nil {
		return engine.Queue{}, err
	}
	defer e.leave()
	r, err := e.do(ctx, e.inspect(name))
	if err != nil {
		return engine.Queue{}, explain(err)
	}
	return e.view(name, e.keys.read((*pb.RangeResponse)(r.Get()))), nil
}

func (e *Engine) view(name string, l line) engine.Queue {
	v := engine.Queue{Name: name}
	for i := range l.places {
		p := &l.places[i]
		c := engine.Claim{
			Name: name, Ticket: p.ticket, Permits: p.permits, Limit: p.limit, State: engine.Waiting,
			Owner: engine.ParseOwner(p.owner), Revoked: p.revoked, TTL: e.ttl,
		}
		if i < l.held {
			c.State, c.Contended = engine.Held, l.contended()
		}
		v.Limit, v.Claims = p.limit, append(v.Claims, c)
	}
	return v
}

// queuesAtOnce is how many keys Queues reads at a time.
const queuesAtOnce = 1000

// Queues implements [engine.Engine].
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		var name string
		var found []place
		shown := func() bool { return len(found) == 0 || yield(e.view(name, inOrder(found)), nil) }
		from := e.keys.prefix + "line/" + prefix
		to := clientv3.GetPrefixRangeEnd(from)
		for more := true; more; {
			kvs, err := e.page(ctx, from, to)
			if err != nil {
				yield(engine.Queue{}, explain(err))
				return
			}
			// The keys of one name follow each other.
			for _, kv := range kvs {
				p, ok := e.keys.parse(kv)
				if !ok {
					continue
				}
				if p.name != name {
					if !shown() {
						return
					}
					name, found = p.name, nil
				}
				found = append(found, p)
			}
			if more = len(kvs) == queuesAtOnce; more {
				from = string(kvs[len(kvs)-1].Key) + "\x00"
			}
		}
		shown()
	}
}

// page reads some keys. What the caller of Queues does in between must not hold up
// Close.
func (e *Engine) page(ctx context.Context, from, to string) ([]*mvccpb.KeyValue, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	r, err := e.do(ctx, clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithLimit(queuesAtOnce)))
	if err != nil {
		return nil, err
	}
	return r.Get().Kvs, nil
}

// Revoke implements [engine.Engine]. A marked holder is put on an etcd lease of its
// own, as long as the one it had, which nobody keeps alive: so its room is free
// when it leaves, or when that has passed, which is after its own trust has.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	for {
		r, err := e.do(ctx, e.look(name, 0))
		if err != nil {
			return explain(err)
		}
		l := e.keys.read((*pb.RangeResponse)(r.Get()))
		i := slices.IndexFunc(l.places, func(p place) bool { return p.ticket == ticket })
		if i < 0 {
			return engine.ErrNoClaim
		}
		if done, err := e.revoke(ctx, l, i, now); done || err != nil {
			return explain(err)
		}
	}
}

// revoke ends the claim at i, unless the queue has changed under it: a waiting claim
// may have become held, and then it is to be marked.
func (e *Engine) revoke(ctx context.Context, l line, i int, now bool) (done bool, err error) {
	p := &l.places[i]
	if p.revoked && !now {
		return true, nil
	}
	old, err := e.client.TimeToLive(ctx, p.lease)
	if err != nil {
		return false, err
	}
	granted := old.GrantedTTL
	switch {
	case p.lease == 0: // a key that somebody wrote by hand
		granted = seconds(e.ttl)
	case old.TTL < 0: // zero is less than a second
		return false, engine.ErrNoClaim // it has just expired
	}
	lease, _, err := e.grant(ctx, granted)
	if err != nil {
		return false, err
	}
	still := []clientv3.Cmp{p.stands()}
	end := clientv3.OpDelete(p.key)
	switch {
	case now:
	case i < l.held:
		end = clientv3.OpPut(p.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(lease))
	default: // it waits for as long as these stand, which are some of its semaphore's at least
		blockers := l.blockers(i)
		for _, b := range blockers[:min(len(blockers), maxOps)] {
			still = append(still, b.stands())
		}
	}
	notification := clientv3.OpPut(e.keys.notification(p.client, p.key), text(revoked, p.ticket), clientv3.WithLease(lease))
	r, err := e.do(ctx, clientv3.OpTxn(still, []clientv3.Op{end, notification}, nil))
	if err != nil {
		return false, err
	}
	if !r.Txn().Succeeded {
		_, err = e.client.Revoke(ctx, lease)
	}
	return r.Txn().Succeeded, err
}
