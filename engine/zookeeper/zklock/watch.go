package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
)

// news is what Watch has to tell, and to look at.
type news struct {
	watching      bool
	began         bool
	notifications []engine.Claim
	looks         map[*claim]struct{}
	more          chan struct{} // holds one thing when there is something
}

// notification is for Watch to tell. Without a Watch it is lost, which notifications may be: the
// claim's own marks are not.
func (n *news) notification(c engine.Claim) {
	if n.watching {
		c.TTL, c.PollAfter = 0, 0
		n.notifications = append(n.notifications, c)
		n.ring()
	}
}

func (n *news) look(c *claim) {
	if n.watching {
		n.looks[c] = struct{}{}
		n.ring()
	}
}

func (n *news) ring() {
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// watch is one that the client library keeps: of a node's data and end, or of its
// children. The library keeps each one that is asked for until it fires, and the
// servers keep one of a kind for each path: so a second is not asked for while the
// first stands.
type watch struct {
	path     string
	children bool
}

// listens: it was asked for and has not fired. The caller holds the mutex.
func (e *Engine) listens(w watch) bool {
	_, ok := e.watches[w]
	return ok
}

// listen asks with a watch unless there is one. It is noted before it is asked for, so
// that it cannot fire unnoted. Others may rely on it from then on: where it fails,
// it counts as fired.
func (e *Engine) listen(w watch, ask func(watch bool) error) error {
	e.mu.Lock()
	stands := e.watches[w]
	if !stands {
		e.watches[w] = false // there may be one; an answer from behind it is needed
	}
	e.mu.Unlock()
	err := ask(!stands)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case stands:
	case err != nil:
		e.failedLocked(w, err)
	case e.listens(w):
		e.watches[w] = true
	}
	return err
}

func (e *Engine) getWatched(ctx context.Context, path string) (answer got, err error) {
	err = e.listen(watch{path, false}, func(watch bool) error {
		answer, err = get(ctx, e.link, path, watch)
		return err
	})
	return answer, err
}

func (e *Engine) listWatched(ctx context.Context, path string) (answer listed, err error) {
	err = e.listen(watch{path, true}, func(watch bool) error {
		if !watch {
			answer, err = e.list(ctx, path)
			return err
		}
		answer, err = list(ctx, e.link, path, true)
		answer.line, answer.strays = e.layout.Sort(answer.children)
		return err
	})
	return answer, err
}

// heard takes in what the client library tells, before any later answer is given to
// whoever waits for one. It does not block.
func (e *Engine) received(ev zk.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch ev.Type {
	case zk.EventSession:
		switch ev.State {
		case zk.StateHasSession:
			e.news.began = e.news.watching
			e.news.ring()
			// The library renews its watches and says since when, by the last answer
			// it had: one that came on the new connection before it said so hides
			// what changed in between. So every queue is listed once more.
			for _, c := range e.claims {
				c.stale = true
			}
		case zk.StateExpired:
			// A new session inherits nothing. What is being made may become the
			// new one's: its node says.
			for id, c := range e.claims {
				e.endLocked(c, false)
				if c.left != nil {
					delete(e.claims, id) // a node that could not be removed
				}
			}
			clear(e.watches)
		}
	case zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged:
		e.changedLocked(ev.Path, ev.Type)
	}
}

// changedLocked: a node has changed whose watches, or the one of that kind, are used
// up by that.
func (e *Engine) changedLocked(path string, what zk.EventType) {
	if what != zk.EventNodeChildrenChanged {
		delete(e.watches, watch{path, false})
	}
	if what != zk.EventNodeDataChanged {
		delete(e.watches, watch{path, true})
	}
	if c := e.own[path]; c != nil {
		if what == zk.EventNodeDeleted {
			e.endLocked(c, true)
		} else {
			c.unread = true
			e.news.look(c)
		}
	}
	e.awakenLocked(path, true)
	if what != zk.EventNodeChildrenChanged {
		return
	}
	for c := range e.lines[path] {
		if c.phase != holding || c.contended {
			continue
		}
		c.stale = true
		if c.request.Permits != c.request.Limit {
			e.news.look(c) // another holder may have come, or gone
			continue
		}
		// It was alone, so somebody came. Who does not wait may be gone again
		// before the queue could be listed, and is to be told of as well.
		c.contended = true
		e.notifyLocked(c)
	}
}

// awakenLocked has those see who wait for a change of a path: at once, or with their
// next Renew.
func (e *Engine) awakenLocked(path string, now bool) {
	for c := range e.awaited[path] {
		e.unwatchLocked(c)
		if c.stale = true; now {
			e.news.look(c)
		}
	}
}

// failedLocked: a watch may not stand, and whoever relies on it is to look. What the
// servers refuse they would refuse again at once.
func (e *Engine) failedLocked(w watch, why error) {
	delete(e.watches, w)
	now := errors.Is(why, zk.ErrNoNode) || indeterminate(why)
	e.awakenLocked(w.path, now)
	if c := e.own[w.path]; c != nil && !w.children {
		c.unread = true
	}
	if !w.children {
		return
	}
	for c := range e.lines[w.path] {
		if c.phase != holding {
			continue
		}
		if c.stale = true; now {
			e.news.look(c)
		}
	}
}

// notifyLocked tells what is new of a claim that holds.
func (e *Engine) notifyLocked(c *claim) {
	if c.phase == holding && (c.unheard || c.contended && !c.notified) {
		c.notified, c.unheard = c.contended, false
		e.news.notification(e.reportLocked(c))
	}
}

// Watch implements [engine.Engine]. ZooKeeper tells that a node has changed; what
// that means for a claim is looked up, many at a time, and told here.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return engine.ErrClosed
	}
	e.news.watching, e.news.began = true, true
	e.news.ring()
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.news.watching, e.news.notifications = false, nil
		clear(e.news.looks)
	}()
	room := make(chan struct{}, atOnce)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.life.Done():
			return engine.ErrClosed
		case <-e.news.more:
		}
		e.mu.Lock()
		began, notifications := e.news.began, e.news.notifications
		e.news.began, e.news.notifications = false, nil
		cs := make([]*claim, 0, len(e.news.looks))
		for c := range e.news.looks {
			cs = append(cs, c)
		}
		clear(e.news.looks)
		e.mu.Unlock()
		if began {
			changed(engine.Claim{})
		}
		for _, c := range notifications {
			changed(c)
		}
		for _, c := range cs {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			case <-e.life.Done():
				return engine.ErrClosed
			}
			e.mu.Lock()
			if e.closed {
				e.mu.Unlock()
				return engine.ErrClosed
			}
			e.running.Go(func() {
				// An error means that nothing was learned: Renew looks again.
				_ = e.look(e.life, c, false)
				<-room
				e.mu.Lock()
				defer e.mu.Unlock()
				e.notifyLocked(c)
				e.news.ring()
			})
			e.mu.Unlock()
		}
	}
}
