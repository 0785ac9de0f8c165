package etcdlock

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The Joins and Leaves of many concurrent callers go together, each a transaction in one.
// With many callers most of the work of a lock is not the lock, but making, sending,
// committing and answering a request.
//
// A name is in a group once at most. So the order in which etcd looks at a group's
// conditions, all before it changes anything, makes no difference, and no two claims
// of a name are made in one revision.
//
// A crowd on one name is as many requests therefore, of which few are under way at
// once: a queue in etcd is in everybody's way, other names' and the renewals'. Who
// leaves goes before who joins.

// call is one caller's call.
type call struct {
	name     string
	op       clientv3.Op // a transaction
	leaves   bool
	patience time.Duration // how long an answer is waited for, once it is sent
}

// answer is what one transaction was answered.
type answer struct {
	succeeded bool
	responses []*pb.ResponseOp
	revision  int64
	err       error
	grouped   bool // it went with others'
}

func (a *answer) first() *pb.RangeResponse { return a.responses[0].GetResponseRange() }

func (a *answer) last() *pb.RangeResponse {
	return a.responses[len(a.responses)-1].GetResponseRange()
}

const (
	// many is how many calls must be under way before they are sent in groups.
	many = 16

	// maxSenders bounds how many groups are under way at once.
	maxSenders = 8
)

// gather has calls go in groups.
func (e *Engine) gather() {
	e.group.Alone, e.group.Many = e.alone, many
	e.group.Send, e.group.Most, e.group.Senders = e.send, atOnce, maxSenders
	e.group.Key = func(c *call) string { return c.name }
	e.group.First = func(c *call) bool { return c.leaves }
}

// commit carries out a transaction about one name, with others if there are many.
func (e *Engine) commit(ctx context.Context, c *call) answer {
	a, err := e.group.Do(ctx, c)
	if err != nil {
		return answer{err: err}
	}
	if a.grouped && a.err != nil && !indeterminate(a.err) && !busy(a.err) && !overdue(a.err) {
		// Nothing of the group was done: each finds out by itself whether that is
		// on its account.
		return e.alone(ctx, c)
	}
	return a
}

func (e *Engine) alone(ctx context.Context, c *call) answer {
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

// send carries out the calls of a group.
func (e *Engine) send(calls []*call) []answer {
	ops := make([]clientv3.Op, 0, len(calls))
	var patience time.Duration
	for _, c := range calls {
		ops, patience = append(ops, c.op), max(patience, c.patience)
	}
	ctx, cancel := context.WithTimeout(e.life, patience)
	defer cancel()
	answers, err := e.inOne(ctx, ops)
	if err != nil {
		answers = make([]answer, len(calls))
	}
	for i := range answers {
		answers[i].err, answers[i].grouped = err, true
	}
	return answers
}
