package etcdlock

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
)

// Nobody tells a client what became of a claim that it handed over: another client renews it
// and leaves it, or nobody does and it ends by its TTL. The client keeps the claim until its
// key has gone: till then its slot is taken, since a Join with the same slot would delete
// the key. After that the claim would take memory, and its class, for nothing.

// forgetHandedOver forgets claims of a session that have gone, of those that nobody here
// asked for within their TTL.
func (e *Engine) forgetHandedOver(life context.Context, s *lifeline) {
	ctx, cancel := context.WithTimeout(life, s.renewalInterval)
	defer cancel()
	now := boottime.Now()
	// After an error the next renewal interval asks again.
	_ = e.forgetDetached(ctx, func(c *claim) bool { return c.class.Session == s && now-c.asked >= c.ttl })
}

// forgetDetached looks at detached claims and forgets those that have gone. No race brings
// one back: a key in that life (see claim.node) is made once. If its owner here still asks
// for it, it is looked for by its ID, as another client's, and not found either.
func (e *Engine) forgetDetached(ctx context.Context, which func(*claim) bool) error {
	var all []*claim
	var nodes []session.Node
	t := &e.table
	t.mu.Lock()
	for _, c := range t.m.Claims {
		if c.Detached && c.Phase.Stands() && which(c) {
			all, nodes = append(all, c), append(nodes, c.node())
		}
	}
	t.mu.Unlock()
	for some := range slices.Chunk(nodes, maxOps) {
		var ops []clientv3.Op
		for _, n := range some {
			ops = append(ops, standing(n))
		}
		var r clientv3.OpResponse
		err := e.again(ctx, one(func(ctx context.Context) (err error) {
			r, err = e.do(ctx, clientv3.OpTxn(nil, ops, nil))
			return err
		}))
		if err != nil {
			return err
		}
		for i, n := range some {
			if !stood(n, r.Txn().Responses[i].GetResponseRange()) {
				e.drop(all[i].ID)
				continue
			}
			t.mu.Lock()
			all[i].asked = boottime.Now()
			t.mu.Unlock()
		}
		all = all[len(some):]
	}
	return nil
}
