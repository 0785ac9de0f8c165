package zklock

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"leasehold/engine/zookeeper/internal/nodes"
)

// The Joins and Leaves of many concurrent callers go together in one multi. For one node
// most of the work is not the node, but the request: to send it, to pass it through the
// threads of a server, to commit it and to answer.
//
// A multi is carried out as a whole or not at all. So only steps share one that have no
// reason to fail: the removal of a node of this session, and a claim in a queue that this
// session left empty (see vacancy), whose name has its node. If one fails all the same,
// each is made again alone. So no caller gets the error of another's step.
//
// A name is in a multi once at most: its nodes are made by different transactions.

// step is the creation or the removal of one node.
type step struct {
	queue string
	op    any // *zk.CreateRequest or *zk.DeleteRequest

	session int64 // whose node is removed; 0 of a creation, which is of any
}

// outcome is what became of a step.
type outcome struct {
	node   string   // that was made
	by     *zk.Stat // of the session's node: see create
	err    error
	shared bool // with other steps
}

const (
	// many is how many steps must be under way before they share requests.
	many = 4

	// mostSteps bounds one multi.
	mostSteps = 64

	// maxSenders bounds how many are under way at once.
	maxSenders = 4
)

// gather has steps share requests.
func (e *claimant) gather() {
	e.group.Alone = func(_ context.Context, s *step) outcome { return e.steps([]*step{s})[0] }
	e.group.Many, e.group.Most, e.group.Senders = many, mostSteps, maxSenders
	e.group.Send = e.steps
	e.group.Key = func(s *step) string { return s.queue }
	e.group.First = func(s *step) bool { _, leaves := s.op.(*zk.DeleteRequest); return leaves }
}

// commit carries out a step, with others if there are many. It ends with the connection.
func (e *claimant) commit(s *step) outcome {
	o, _ := e.group.Do(context.Background(), s) // whose context does not end
	if o.shared && o.err != nil && !indeterminate(o.err) {
		return e.steps([]*step{s})[0] // nothing was done: perhaps because of another's
	}
	return o
}

// steps carries out steps of different queues in one request.
//
// A node goes with its session, and in the plain layout another client's may have its name
// later. So no removal is carried out in a session that began after it was asked for. The
// library may send a request in the next session. There the write to the node of the session
// fails, and the removal with it. Names with a uuid do not come again: they need no write.
func (e *claimant) steps(all []*step) []outcome {
	out := make([]outcome, len(all))
	failed := func(err error) []outcome {
		for i := range out {
			out[i].err, out[i].shared = err, len(all) > 1
		}
		return out
	}
	s, err := e.link.await(e.life)
	if err != nil {
		return failed(err)
	}
	if slices.ContainsFunc(all, func(one *step) bool { return one.session != 0 && one.session != s.id }) {
		return failed(zk.ErrNoNode) // which went with its session
	}
	d, leaves := all[0].op.(*zk.DeleteRequest)
	lone := leaves && len(all) == 1
	if lone && e.layout.Protected() {
		return failed(e.link.conn.Delete(d.Path, d.Version))
	}
	ops := []any{e.writing(s)}
	for _, one := range all {
		ops = append(ops, one.op)
	}
	got, err := e.link.conn.Multi(ops...)
	if lone && errors.Is(err, zk.ErrNoNode) && failedAt(got) == 0 && e.link.lasts(s) {
		err = e.link.conn.Delete(d.Path, d.Version) // somebody has removed the session's node
	}
	if err != nil {
		return failed(err)
	}
	by := written(got[0].Stat, s)
	for i, one := range all {
		if _, created := one.op.(*zk.CreateRequest); created {
			out[i] = outcome{node: got[i+1].String[len(one.queue)+1:], by: by}
		}
	}
	return out
}

// writing is the write to the node of a session.
func (e *claimant) writing(s grant) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: e.root + "/" + nodes.Session(s.id), Version: -1}
}

// failedAt is which of a multi's operations has failed, or -1.
func failedAt(got []zk.MultiResponse) int {
	return slices.IndexFunc(got, func(one zk.MultiResponse) bool { return one.Error != nil })
}

// written is what that write answered, or nil: it was somebody else's node, or another
// session has begun. Then the claim's own node says whose it is.
func written(by *zk.Stat, s grant) *zk.Stat {
	if by.EphemeralOwner != s.id {
		return nil
	}
	return by
}

// creation makes the node of a claim.
func (e *claimant) creation(c *claim) *zk.CreateRequest {
	return &zk.CreateRequest{Path: c.Queue + "/" + e.layout.Prefix(c.uuid, c.Permits, c.Limit),
		Data: c.content(), Acl: e.acl, Flags: zk.FlagEphemeralSequential}
}

// createOrShare is create, with the steps of others if the queue is known to be vacant.
func (e *claimant) createOrShare(c *claim, vacant bool, oldOf *claimant, old *claim) (node string, by *zk.Stat, err error) {
	if vacant && old == nil {
		o := e.commit(&step{queue: c.Queue, op: e.creation(c)})
		switch {
		case o.err == nil:
			return o.node, o.by, nil
		case indeterminate(o.err):
			node, err = e.recover(c, nil, nil, o.err)
			return node, nil, err
		}
	}
	return e.create(c, oldOf, old)
}
