package zklock

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/zookeeper/internal/nodes"
)

// shown is a node of a queue as it was read.
type shown struct {
	node nodes.Node
	got
	content
}

// inspect reads every node of a queue. What goes meanwhile is left out.
func (e *claimant) inspect(ctx context.Context, name string) ([]shown, error) {
	parent := e.parent(name)
	there, err := e.list(ctx, parent)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err, parent)
	}
	if err := e.foreign(parent, there); err != nil {
		return nil, err
	}
	line := there.line
	all := make([]shown, len(line))
	errs := make([]error, len(line))
	each(len(line), func(i int) {
		one := shown{node: line[i]}
		one.got, errs[i] = get(ctx, e.link, parent+"/"+line[i].Name, false)
		one.content = read(one.data)
		all[i] = one
	})
	found := all[:0]
	for i := range all {
		switch {
		case errors.Is(errs[i], zk.ErrNoNode):
		case errs[i] != nil:
			return nil, explain(errs[i], parent)
		default:
			found = append(found, all[i])
		}
	}
	return found, nil
}

func queueOf(all []shown) (l nodes.Queue) {
	for _, one := range all {
		l = append(l, one.node)
	}
	return l
}

// any is a session to look with: one that a server serves, if there is one, else one that claims
// live by, or the usual one.
func (e *Engine) any(ctx context.Context) (*class, error) {
	e.mu.Lock()
	ttl, served := e.usual, false
	for _, c := range e.classes.Opened() {
		if _, up := c.Session.link.current(); up || !served {
			ttl, served = c.TTL, up
		}
	}
	e.mu.Unlock()
	return e.use(ctx, ttl)
}

// Queue implements [engine.Engine]. Nodes have no deadlines, and servers do not show what
// is left of a session. So Queue shows the TTL that a proof grants to the claim. For a
// claim of another program it shows the most that these servers allow.
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	class, err := e.any(ctx)
	if err != nil {
		return engine.Queue{}, err
	}
	defer e.done(class)
	return class.Session.line(ctx, name)
}

func (e *claimant) line(ctx context.Context, name string) (engine.Queue, error) {
	all, err := e.inspect(ctx, name)
	if err != nil {
		return engine.Queue{}, err
	}
	l := engine.Queue{Name: name}
	line := queueOf(all)
	for i, one := range all {
		c := engine.Claim{
			Name: name, Ticket: uint64(one.stat.Czxid), Owner: one.Owner, Permits: one.node.Permits, Limit: one.node.Limit,
			State: engine.Waiting, Contended: line.Contended(i), Revoked: one.Revoked, TTL: one.ttl(e.longest),
		}
		if line.Held(i) {
			c.State = engine.Held
		}
		l.Claims, l.Limit = append(l.Claims, c), line[0].Limit
	}
	return l, nil
}

// Queues implements [engine.Engine]. Nodes beside those of names are passed over, and
// names that this client may not read or that somebody else uses for something else: of
// those Queue says what is wrong.
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		class, err := e.any(ctx)
		if err != nil {
			yield(engine.Queue{}, err)
			return
		}
		defer e.done(class)
		there, err := list(ctx, class.Session.link, e.rootPath(), false)
		if err != nil {
			yield(engine.Queue{}, explain(err, e.rootPath()))
			return
		}
		for _, node := range there.children {
			name, ok := nodes.Decode(node)
			if !ok || !strings.HasPrefix(name, prefix) || engine.CheckName(name) != nil {
				continue
			}
			l, err := class.Session.line(ctx, name)
			switch {
			case errors.Is(err, engine.ErrRefused):
			case err != nil:
				yield(engine.Queue{}, err)
				return
			case len(l.Claims) > 0 && !yield(l, nil):
				return
			}
		}
	}
}

// Revoke implements [engine.Engine]. A holder's node is marked, which its client
// sees, or removed at once. The mark for a node that Curator made is what its
// revocable locks heed. A waiter's node is removed.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	class, err := e.any(ctx)
	if err != nil {
		return err
	}
	defer e.done(class)
	for { // those ahead only leave, and a holder of ours writes to its node but once
		done, err := class.Session.revoke(ctx, name, ticket, now)
		if done || err != nil {
			return err
		}
	}
}

// revoke ends the claim with that ticket, unless the queue has changed under it.
//
// Who waited when the queue was read may hold since, and its client believes that:
//
//	Revoke   reads H, W, X ------------- removes W
//	H               leaves
//	W                      lists: it holds
//	X                                        lists: it holds too
//
// So one step checks that those stand whom W waits for, and removes it. Where they are too many
// for one step, W is marked like a holder.
func (e *claimant) revoke(ctx context.Context, name string, ticket uint64, now bool) (done bool, err error) {
	all, err := e.inspect(ctx, name)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(all, func(one shown) bool { return uint64(one.stat.Czxid) == ticket })
	if i < 0 {
		return false, engine.ErrNoClaim
	}
	one, parent := &all[i], e.parent(name)
	path := parent + "/" + one.node.Name
	var step []any
	if blockers := queueOf(all).Blockers(i); len(blockers) < maxChecks && len(blockers)*(len(path)+32) < maxBytes {
		for _, b := range blockers {
			step = append(step, &zk.CheckVersionRequest{Path: parent + "/" + b.Name, Version: -1})
		}
	}
	waits := !now && len(step) > 0
	_, err = ask(ctx, e.link, func(conn *zk.Conn) (struct{}, error) {
		switch {
		case now:
			return struct{}{}, conn.Delete(path, -1)
		case waits:
			_, err := conn.Multi(append(step, &zk.DeleteRequest{Path: path, Version: -1})...)
			return struct{}{}, err
		}
		mark := []byte(revoke)
		if one.Claim != "" {
			one.content.Revoked = true
			mark = one.content.bytes()
		}
		_, err := conn.Set(path, mark, one.stat.Version)
		return struct{}{}, err
	})
	switch {
	case waits && errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return false, nil // the queue says what became of it
	case errors.Is(err, zk.ErrNoNode):
		return false, engine.ErrNoClaim
	}
	return err == nil, explain(err, path)
}
