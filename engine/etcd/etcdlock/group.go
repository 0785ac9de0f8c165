package etcdlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// group sends the Joins and Leaves of many concurrent callers together: each is a
// transaction in one. With many callers most of the work of a lock is not the lock,
// but making, sending, committing and answering a request. No call waits for a
// clock: what is asked for while a request is under way goes with the next.
//
// A name is in a group once at most. So the order in which etcd looks at a group's
// conditions, all before it changes anything, makes no difference, and no two claims
// of a name are made in one revision.
//
// A crowd on one name is as many requests therefore, of which few are under way at
// once: a queue in etcd is in everybody's way, other names' and the renewals'. Who
// leaves goes before who joins.
type group struct {
	busy atomic.Int32 // calls under way

	mu        sync.Mutex
	gathering []*member // who leaves, and then who joins
	leaving   int       // how many leave
	senders   int
}

// call is one caller's call.
type call struct {
	name     string
	op       clientv3.Op // a transaction
	leaves   bool
	patience time.Duration // how long an answer is waited for, once it is sent
}

type member struct {
	call
	result chan answer // capacity 1
}

// answer is what one transaction was answered.
type answer struct {
	succeeded bool
	responses []*pb.ResponseOp
	revision  int64
	err       error
}

func (a *answer) first() *pb.RangeResponse { return a.responses[0].GetResponseRange() }

func (a *answer) last() *pb.RangeResponse {
	return a.responses[len(a.responses)-1].GetResponseRange()
}

const (
	// many is how many calls must be under way before they are sent in groups.
	// With fewer the detour costs more than it saves.
	many = 16

	// maxSenders bounds how many groups are under way at once.
	maxSenders = 8
)

// commit carries out a transaction about one name, with others if there are many.
func (e *Engine) commit(ctx context.Context, c call) answer {
	g := &e.group
	defer g.busy.Add(-1)
	if g.busy.Add(1) < many {
		return e.alone(ctx, c)
	}
	m := &member{c, make(chan answer, 1)}
	g.mu.Lock()
	g.add(m)
	if g.senders == 0 || len(g.gathering) >= atOnce && g.senders < maxSenders {
		// Not the caller itself sends: its context may end before the answers come.
		if e.begun(e.send) {
			g.senders++
		}
	}
	g.mu.Unlock()
	select {
	case a := <-m.result:
		if a.err != nil && !indeterminate(a.err) && !busy(a.err) && !overdue(a.err) {
			// Nothing of the group was done: each finds out by itself whether that is
			// on its account.
			return e.alone(ctx, c)
		}
		return a
	case <-ctx.Done():
		if g.withdraw(m) {
			return answer{err: notSent{ctx.Err()}}
		}
		return answer{err: ctx.Err()}
	}
}

// notSent is the error of a call that ended before it was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

func (e *Engine) alone(ctx context.Context, c call) answer {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	r, err := e.do(ctx, c.op)
	if err != nil {
		return answer{err: err}
	}
	t := r.Txn()
	return answer{succeeded: t.Succeeded, responses: t.Responses, revision: t.Header.Revision}
}

// inOne carries out some transactions, about different names, in one.
func (e *Engine) inOne(ctx context.Context, ops []clientv3.Op) ([]answer, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	r, err := e.do(ctx, clientv3.OpTxn(nil, ops, nil))
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(ops))
	for i, one := range r.Txn().Responses {
		t := one.GetResponseTxn()
		answers[i] = answer{succeeded: t.Succeeded, responses: t.Responses, revision: r.Txn().Header.Revision}
	}
	return answers, nil
}

// add: with mu held.
func (g *group) add(m *member) {
	at := len(g.gathering)
	if m.leaves {
		at = g.leaving
		g.leaving++
	}
	g.gathering = slices.Insert(g.gathering, at, m)
}

// withdraw has a call not sent whose caller has gone, and reports whether that was in
// time. One that a sender has taken by then may still be carried out, as any call
// whose answer was not waited for.
func (g *group) withdraw(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.gathering, m)
	if i < 0 {
		return false
	}
	g.removed(m)
	g.gathering = slices.Delete(g.gathering, i, i+1)
	return true
}

// removed: with mu held.
func (g *group) removed(m *member) {
	if m.leaves {
		g.leaving--
	}
}

// take is the next group: calls about different names, in their order.
func (g *group) take() (members []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := map[string]bool{}
	g.gathering = slices.DeleteFunc(g.gathering, func(m *member) bool {
		if len(members) == atOnce || names[m.name] {
			return false
		}
		names[m.name] = true
		g.removed(m)
		members = append(members, m)
		return true
	})
	if len(members) == 0 {
		g.senders--
	}
	return members
}

// send sends for as long as calls gather.
func (e *Engine) send(life context.Context) {
	for {
		members := e.group.take()
		if len(members) == 0 {
			return
		}
		var ops []clientv3.Op
		var patience time.Duration
		for _, m := range members {
			ops, patience = append(ops, m.op), max(patience, m.patience)
		}
		// No caller's context: one must not break off the others.
		ctx, cancel := context.WithTimeout(life, patience)
		answers, err := e.inOne(ctx, ops)
		cancel()
		for i, m := range members {
			if err != nil {
				m.result <- answer{err: err}
			} else {
				m.result <- answers[i]
			}
		}
	}
}
