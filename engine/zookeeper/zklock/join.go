package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/zookeeper/internal/nodes"
)

// join makes a claim of this session, in the class that it uses from now on.
//
// A node is created, the queue is listed, and what was listed decides. The list may
// be old (it comes from the server that this client is connected to), but it is
// never older than the node, and those before the node can only go: who is first in
// it is first. Whether the node stands is proven by its creation, which counts from
// the start of this call; one that an earlier call created is checked once more.
func (e *claimant) join(ctx context.Context, r engine.Request, ttl time.Duration, class *class) (engine.Claim, error) {
	if r.Replaces != (engine.ID{}) {
		// What it replaces goes in the step that creates the node. So every refusal is
		// decided before.
		if err := e.refuse(ctx, &r); err != nil {
			e.done(class)
			return engine.Claim{}, err
		}
	}
	c := newClaim(r, e.parent(r.Name), ttl, class)
	oldOf, old := e.find(r.Name, r.Replaces)
	e.mu.Lock()
	if first := e.m.Claims[r.ID]; first != nil {
		e.mu.Unlock()
		e.done(class) // another call was first
		return e.joinAgain(ctx, first)
	}
	e.m.Begin(c)
	if old != nil && (!old.Phase.Stands() || old.Session == 0 && !e.layout.Protected()) {
		// It is being made or removed: what comes of it is removed anyway. Or it is not
		// known whose its node is: it is looked at before it is removed.
		oldOf.drop(old)
		old = nil
	}
	if !e.spawn(func() { e.make(c, oldOf, old) }) {
		c.err = engine.ErrClosed
		close(c.made)
		e.m.NotMade(c)
	}
	e.mu.Unlock()
	return e.place(ctx, c)
}

// joinAgain is join of a claim that is known: its node may have been made before this
// call.
func (e *claimant) joinAgain(ctx context.Context, c *claim) (engine.Claim, error) {
	if err := e.isMade(ctx, c); err != nil {
		return engine.Claim{}, err
	}
	if _, err := e.prove(ctx, []*claim{c}); err != nil {
		return engine.Claim{}, err
	}
	if c.NoWait { // which listens to nobody: the name may have become free unseen
		e.mu.Lock()
		e.m.Owe(c, session.Queue)
		e.mu.Unlock()
	}
	return e.place(ctx, c)
}

// isMade waits until it is known what became of a claim's node.
func (e *claimant) isMade(ctx context.Context, c *claim) error {
	select {
	case <-c.made:
		return explain(c.err, c.Queue)
	case <-ctx.Done():
		return e.link.away(fmt.Errorf("the node is not known to be made yet: %w", context.Cause(ctx)))
	}
}

// place finds out where in the queue a claim stands, and whether it may.
func (e *claimant) place(ctx context.Context, c *claim) (engine.Claim, error) {
	if err := e.isMade(ctx, c); err != nil {
		return engine.Claim{}, err
	}
	if err := e.look(ctx, c); errors.Is(err, engine.ErrRefused) {
		return e.withdraw(ctx, c, err)
	} else if err != nil {
		return engine.Claim{}, err
	}
	e.mu.Lock()
	got := e.report(c)
	e.mu.Unlock()
	switch {
	case got.State == engine.Waiting && c.NoWait:
		return e.withdraw(ctx, c, nil)
	case got.State == engine.Waiting:
		time.AfterFunc(patience, func() { e.promoted(c) })
	case got.State == engine.Gone && !got.Revoked:
		// Its session ended between the creation and the list. A fresh node for
		// the same ID is the next call's: this one says that nothing was learned.
		return engine.Claim{}, errors.New("zookeeper: the session ended while the claim was made")
	}
	return got, nil
}

// withdraw removes the node of a claim that is not to be in the queue, and says so: with
// a refusal, or with state Gone. Neither is said before the node has gone.
func (e *claimant) withdraw(ctx context.Context, c *claim, why error) (engine.Claim, error) {
	if _, err := e.leave(ctx, c); err != nil {
		return engine.Claim{}, err
	}
	if why != nil {
		return engine.Claim{}, why
	}
	return engine.Claim{Name: c.Name, ID: c.ID, Permits: c.Permits, Limit: c.Limit, State: engine.Gone}, nil
}

// refuse looks for a reason to refuse before anything is changed.
func (e *claimant) refuse(ctx context.Context, r *engine.Request) error {
	parent := e.parent(r.Name)
	there, err := e.list(ctx, parent)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return explain(err, parent)
	}
	if err := e.foreign(parent, there); err != nil {
		return err
	}
	_, old := e.find(r.Name, r.Replaces)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range there.line {
		if old == nil || old.Key != parent+"/"+n.Name {
			return limits(r, n)
		}
	}
	return nil
}

// limits compares a request with the first of those before it.
func limits(r *engine.Request, first nodes.Node) error {
	if first.Limit != r.Limit {
		return &engine.LimitError{Name: r.Name, Have: first.Limit, Want: r.Limit}
	}
	return nil
}

// make creates the node of a claim, whoever still waits for it. When it returns
// there is a node that is known, or none.
//
// The queue is asked for at once, behind the creation: servers answer the requests of
// a session in their order. Nothing depends on which of the two goroutines was first.
// A list that has the node was made after it, and any other is not used. A claim in a vacant
// queue needs no list.
func (e *claimant) make(c *claim, oldOf *claimant, old *claim) {
	e.creating <- struct{}{} // whoever has room gives it back: at the latest when this engine is closed
	defer func() { <-e.creating }()
	v, sure := e.vacant(c.Queue)
	var first *listing
	if !sure {
		first = e.listing(c.Queue)
	}
	node, by, err := e.createOrShare(c, sure, oldOf, old)
	if first != nil {
		<-first.done
	}
	defer close(c.made)
	// An error leaves the vacancy as it is. A node that was made all the same has the next
	// number. So the one after has a later number, and its queue is listed.
	if err == nil && e.occupy(v, c, node) {
		_, _ = e.getWatched(e.life, c.Queue) // an error: its queue will be listed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		c.err = err
		e.m.NotMade(c)
		return
	}
	switch {
	case first != nil && first.there.line.Find(node) >= 0:
		c.first = &first.there
	case sure && c.follows && by != nil:
		c.first = e.alone(node, by.Mzxid)
	}
	var session int64
	var ticket uint64
	if by != nil {
		session, ticket = by.EphemeralOwner, uint64(by.Mzxid)
	}
	if e.m.Made(c, c.Queue+"/"+node, session, ticket) {
		e.spawn(func() { e.remove(c) })
	}
	if s, _ := e.link.current(); session != 0 && s.id != session {
		e.m.Ended(session) // while this waited for its turn: it was not among those that ended
	}
}

// mostCreated bounds how many nodes are being made at once: what else is asked for, as a
// renewal, stands behind no more in the queue of the connection.
const mostCreated = 256

// rounds bounds how often what a claim's node needs is made anew: the node of the
// name, which the server removes some time after its last child, and the session's.
const rounds = 10

var errVanishes = errors.New("the node of this name vanishes again and again while a claim is made in it")

// create makes the node of a claim and, in the same step, writes to the node of the
// session: a creation answers with a name alone, a write with the transaction and with
// whose the written node is, and those are the claim's too. by is what that write
// answered, nil where that is not known. old goes in the same step.
func (e *claimant) create(c *claim, oldOf *claimant, old *claim) (node string, by *zk.Stat, err error) {
	for range rounds {
		s, err := e.link.await(e.life)
		if err != nil {
			return "", nil, err
		}
		write := e.writing(s)
		ops := []any{write, e.creation(c)}
		if old != nil {
			ops = append(ops, e.replacing(old)...)
		}
		got, err := e.link.conn.Multi(ops...)
		if err == nil {
			oldOf.replaced(old)
			return got[1].String[len(c.Queue)+1:], written(got[0].Stat, s), nil
		}
		failed := failedAt(got)
		switch missing := errors.Is(err, zk.ErrNoNode); {
		case missing && failed == 0 && !e.link.lasts(s):
			err = nil // the library has sent it in the next session
		case missing && failed == 0:
			if _, err = e.link.conn.Create(write.Path, nil, zk.FlagEphemeral, e.acl); errors.Is(err, zk.ErrNoAuth) {
				return "", nil, explain(err, e.rootPath()+", which "+c.Queue+" needs")
			}
		case missing && failed == 1:
			_, err = e.link.conn.CreateContainer(c.Queue, nil, zk.FlagContainer, e.acl)
		case missing && failed == 2:
			oldOf.replaced(old)
			old, err = nil, nil
		case missing && failed == 3:
			e.mu.Lock()
			oldOf.drop(old) // unless it has ended with its session
			e.mu.Unlock()
			old, err = nil, nil
		case indeterminate(err):
			node, err := e.recover(c, oldOf, old, err)
			return node, nil, err
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return "", nil, fmt.Errorf("zookeeper: there is no node %s any more: create it (zkCli.sh: create %s)", e.root, e.root)
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			return "", nil, err
		}
	}
	return "", nil, errVanishes
}

// replacing removes what a claim takes the place of. In the plain layout it also checks that
// the session of that lasts: else another client's node may have its name (see steps).
func (e *claimant) replacing(old *claim) []any {
	ops := []any{&zk.DeleteRequest{Path: old.Key, Version: -1}}
	if e.layout.Protected() {
		return ops
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(ops, &zk.CheckVersionRequest{Path: e.root + "/" + nodes.Session(old.Session), Version: -1})
}

// replaced: what went in the step that made another.
func (e *claimant) replaced(old *claim) {
	if old == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.m.Left(old)
}

// recover finds out what became of a node whose creation was not answered: by its
// name, or in the plain layout by what it holds. Before it looks, something of this
// session is committed: a creation that was on its way is then done or refused,
// since the server to which a client moved takes the session over from the former.
func (e *claimant) recover(c *claim, oldOf *claimant, old *claim, why error) (string, error) {
	for ; ; e.pause() {
		if err := e.barrier(e.life); err != nil {
			if e.life.Err() != nil {
				return "", err
			}
			continue // the connection broke again
		}
		there, err := list(e.life, e.link, c.Queue, false)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return "", why
		case err != nil && !indeterminate(err):
			return "", err
		case err != nil:
			if e.life.Err() != nil {
				return "", err
			}
			continue
		}
		node, err := e.mine(c, there.children)
		if err == nil && node != "" {
			oldOf.replaced(old) // one step did both
		}
		if err == nil && node == "" {
			return "", fmt.Errorf("the connection broke while the node was made, and there is none: %w", why)
		}
		if err == nil || !indeterminate(err) || e.life.Err() != nil {
			return node, err
		}
	}
}

// mine is the node of a claim among some, or "".
func (e *claimant) mine(c *claim, children []string) (string, error) {
	for _, node := range children {
		if e.layout.Protected() {
			if nodes.Has(node, c.uuid) {
				return node, nil
			}
			continue
		}
		got, err := get(e.life, e.link, c.Queue+"/"+node, false)
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return "", err
		case read(got.data).Claim == c.uuid:
			return node, nil
		}
	}
	return "", nil
}

// barrier commits something of this session that changes nothing.
func (e *claimant) barrier(ctx context.Context) error {
	_, err := ask(ctx, e.link, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(&zk.CheckVersionRequest{Path: e.rootPath(), Version: -1})
	})
	if err != nil && !indeterminate(err) {
		return nil // which was decided in the same order
	}
	return err
}

// pause keeps a request that failed from being made again at once: a connection
// that broke may look whole for a moment.
func (e *claimant) pause() {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-e.life.Done():
	}
}

// got is a node as one answer had it.
type got struct {
	data []byte
	stat *zk.Stat
}

func get(ctx context.Context, l *link, path string, watch bool) (got, error) {
	return ask(ctx, l, func(conn *zk.Conn) (got, error) {
		if watch {
			data, stat, _, err := conn.GetW(path) // what it tells comes to Engine.heard
			return got{data, stat}, err
		}
		data, stat, err := conn.Get(path)
		return got{data, stat}, err
	})
}
