package etcdlock

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
)

// Queue implements [engine.Engine]. It is shown what is left of each claim's etcd lease,
// in whole seconds: one question for each client in the queue and TTL of it.
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	r, err := e.read(ctx, e.inspect(name))
	if err != nil {
		return engine.Queue{}, e.explain(err)
	}
	l, left := e.keys.read((*pb.RangeResponse)(r.Get())), lefts{}
	if err := e.left(ctx, l.places, left); err != nil {
		return engine.Queue{}, e.explain(err)
	}
	return e.view(name, l, left), nil
}

// lefts is how long leases last yet, unless they are kept alive.
type lefts map[clientv3.LeaseID]time.Duration

// left asks for what is left of the leases of claims, but for those that are known. Etcd
// says it in whole seconds, rounded down, where zero would say that it never ends: a
// moment is left.
func (e *Engine) left(ctx context.Context, places []place, left lefts) error {
	for i := range places {
		id := places[i].lease
		if _, known := left[id]; known || id == 0 {
			continue
		}
		r, err := e.timeToLive(ctx, id)
		if err != nil {
			return err
		}
		left[id] = max(time.Duration(r.TTL)*time.Second, time.Millisecond)
	}
	return nil
}

func (e *Engine) timeToLive(ctx context.Context, id clientv3.LeaseID) (r *clientv3.LeaseTimeToLiveResponse, err error) {
	err = e.again(ctx, one(func(ctx context.Context) (err error) {
		r, err = e.client.TimeToLive(ctx, id)
		return err
	}))
	return r, err
}

func (e *Engine) view(name string, l line, left lefts) engine.Queue {
	v := engine.Queue{Name: name}
	for i := range l.places {
		p := &l.places[i]
		c := engine.Claim{
			Name: name, Ticket: p.ticket, Permits: p.permits, Limit: p.limit, State: engine.Waiting,
			Owner: engine.ParseOwner(p.owner), Revoked: p.revoked, TTL: left[p.lease],
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
		left := lefts{}
		shown := func() bool {
			if len(found) == 0 {
				return true
			}
			if err := e.left(ctx, found, left); err != nil {
				yield(engine.Queue{}, e.explain(err))
				return false
			}
			return yield(e.view(name, inOrder(found), left), nil)
		}
		from := e.keys.prefix + "line/" + prefix
		to := clientv3.GetPrefixRangeEnd(from)
		for more := true; more; {
			r, err := e.read(ctx, clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithLimit(queuesAtOnce)))
			if err != nil {
				yield(engine.Queue{}, e.explain(err))
				return
			}
			// The keys of one name follow each other.
			kvs := r.Get().Kvs
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

// Revoke implements [engine.Engine]. It puts a marked holder on an etcd lease of its own,
// which nobody keeps alive. So its permits are free when it leaves or when that lease has
// ended, which is after its own trust has: see soon.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	for unclear := false; ; {
		r, err := e.read(ctx, e.look(name, 0))
		if err != nil {
			return e.explain(err)
		}
		l := e.keys.read((*pb.RangeResponse)(r.Get()))
		i := slices.IndexFunc(l.places, func(p place) bool { return p.ticket == ticket })
		switch {
		case i < 0 && unclear:
			return nil
		case i < 0:
			return engine.ErrNoClaim
		}
		// A lease that has ended by the time that it is needed was granted long ago.
		if done, err := e.revoke(ctx, l, i, now, &unclear); done || err != nil && !leaseGone(err) {
			return e.explain(err)
		}
	}
}

// soon is a condition that holds for some seconds from now on: a key is there, which hangs on a
// lease of its own. Only while it holds may a mark be made.
//
// The lease that a mark hangs on is granted before, and a holder may be trusted for five sixths
// of its own lease from the moment of the mark on. This client may stand still in between, or a
// member with its request. So that lease lasts longer than the holder's: by those seconds, and
// by one more in which etcd notices that they have passed.
//
//	this key's lease   |--------|
//	the mark's         |-----------------------------------|
//	the holder's trust        ^ mark ---------------|
func (e *Engine) soon(ctx context.Context, holders int64) (holds clientv3.Cmp, most int64, err error) {
	lease, lasts, err := e.grant(ctx, (holders+renewalIntervals-1)/renewalIntervals, nil)
	if err != nil {
		return clientv3.Cmp{}, 0, err
	}
	key := fmt.Sprintf("%s/mark/%x", e.keys.void(e.name), lease)
	err = e.again(ctx, one(func(ctx context.Context) error {
		_, err := e.do(ctx, clientv3.OpPut(key, "", clientv3.WithLease(lease)))
		return err
	}))
	return clientv3.Compare(clientv3.CreateRevision(key), ">", 0), int64(lasts/time.Second) + 1, err
}

// revoke ends the claim at i, unless the queue has changed under it: a waiting claim
// may have become held, and then it is to be marked. It sets unclear if an attempt was not
// answered: it may have ended the claim.
func (e *Engine) revoke(ctx context.Context, l line, i int, now bool, unclear *bool) (done bool, err error) {
	p := &l.places[i]
	if p.revoked && !now {
		return true, nil
	}
	old, err := e.timeToLive(ctx, p.lease)
	if err != nil {
		return false, err
	}
	granted := old.GrantedTTL
	switch {
	case p.lease == 0: // a key that somebody wrote by hand
		granted = seconds(shared)
	case old.TTL < 0: // zero is less than a second
		// It has just expired, and then its key goes; or a former leader does not know it.
		return false, e.pause(ctx, staleSoon)
	}
	still := []clientv3.Cmp{stands(p.node())}
	blockers := l.blockers(i)
	marks := !now && (i < l.held || len(blockers) > maxOps) // too many to ask whether it still waits for them all
	if marks {
		holds, longer, err := e.soon(ctx, granted)
		if err != nil {
			return false, err
		}
		still, granted = append(still, holds), granted+longer
	}
	lease, _, err := e.grant(ctx, granted, nil) // after soon, so that it ends that much later
	if err != nil {
		return false, err
	}
	end := clientv3.OpDelete(p.key)
	switch {
	case now:
	case marks:
		end = clientv3.OpPut(p.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(lease))
	default: // it waits for as long as these stand
		for _, b := range blockers {
			still = append(still, stands(b))
		}
	}
	notification := clientv3.OpPut(e.keys.notification(p.client, p.key), text(revoked, p.ticket), clientv3.WithLease(lease))
	var r clientv3.OpResponse
	err = e.propose(ctx, one(func(ctx context.Context) (err error) {
		r, err = e.do(ctx, clientv3.OpTxn(still, []clientv3.Op{end, notification}, nil))
		*unclear = *unclear || indeterminate(err)
		return err
	}))
	if err != nil {
		return false, err
	}
	if !r.Txn().Succeeded && !*unclear { // else an attempt that is late may need it
		e.discard(ctx, lease)
	}
	return r.Txn().Succeeded, nil
}
