package zklock

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/zookeeper/internal/nodes"
)

// listed is the children of a node as one answer had them. It is shared, and never changed.
type listed struct {
	children []string
	stat     *zk.Stat

	line   nodes.Queue
	strays error // what does not belong there, if the node is that of a name
}

func list(ctx context.Context, l *link, path string, watch bool) (listed, error) {
	return ask(ctx, l, func(conn *zk.Conn) (listed, error) {
		if watch {
			children, stat, _, err := conn.ChildrenW(path)
			return listed{children: children, stat: stat}, err
		}
		children, stat, err := conn.Children(path)
		return listed{children: children, stat: stat}, err
	})
}

// foreign refuses a queue in which something stands that does not belong there: it would
// be in the queue of others, and not for us.
func (e *claimant) foreign(parent string, there listed) error {
	if there.strays == nil {
		return nil
	}
	return engine.Refuse("zookeeper: below %s: %w: let everybody who uses this name use one layout (?layout=), or choose another root for these locks", parent, there.strays)
}

// listing is one list of a queue, for all claims of this client that wait for one.
//
// A list is as long as its queue. If each of a crowd asked for one of its own, what is
// read would grow with the square of their number, and renewals would stand behind it.
// So one is under way for a name at a time. Whoever asks meanwhile has the next, which
// begins when that has ended: after it was asked for, as whoever asks relies on.
type listing struct {
	done  chan struct{}
	there listed
	err   error
}

// listings are those of one name.
type listings struct{ now, next *listing }

func (e *claimant) listing(parent string) *listing {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.listings[parent]
	switch {
	case all == nil:
		l := &listing{done: make(chan struct{})}
		all = &listings{now: l}
		if e.listings[parent] = all; !e.spawn(func() { e.listOneByOne(parent, all) }) {
			l.err = engine.ErrClosed
			close(l.done)
		}
		return l
	case all.next == nil:
		all.next = &listing{done: make(chan struct{})}
	}
	return all.next
}

// listOneByOne goes on until nobody asks.
func (e *claimant) listOneByOne(parent string, all *listings) {
	for l := all.now; l != nil; {
		l.there, l.err = list(e.life, e.link, parent, false)
		l.there.line, l.there.strays = e.layout.Sort(l.there.children)
		close(l.done)
		e.mu.Lock()
		l, all.now, all.next = all.next, all.next, nil
		if l == nil {
			delete(e.listings, parent)
		}
		e.mu.Unlock()
	}
}

// list is the queue of a name as of an answer to a request that was made after this call.
func (e *claimant) list(ctx context.Context, parent string) (listed, error) {
	l := e.listing(parent)
	select {
	case <-l.done:
		return l.there, l.err
	case <-ctx.Done():
		return listed{}, e.link.away(fmt.Errorf("no answer yet: %w", context.Cause(ctx)))
	}
}
