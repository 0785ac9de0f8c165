package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"leasehold/engine/internal/session"
)

// watch is one that the client library keeps: of a node's data and end, or of its
// children. The library keeps each one that is asked for until it fires, and the
// servers keep one of a kind for each path: so a second is not asked for while the
// first stands.
type watch struct {
	path     string
	children bool
}

// standing is one watch, from when it is asked for until it fires.
type standing struct {
	answered bool // so it stands
}

// listens: it was asked for and has not fired. The caller holds the mutex.
func (e *claimant) listens(w watch) bool {
	_, ok := e.watches[w]
	return ok
}

// stands: it was asked for and answered, and has not fired. The caller holds the mutex.
func (e *claimant) stands(w watch) bool {
	s := e.watches[w]
	return s != nil && s.answered
}

// listen asks with a watch unless there is one. It is noted before it is asked for, so
// that it cannot fire unnoted. Others may rely on it from then on: where it fails,
// it counts as fired.
//
// An answer counts for the watch that was noted, and for none that was noted since:
//
//	one      notes it, asks --- answered                    sees that another is noted
//	                                    fires
//	other                                     notes the next, asks ...
//
// If one took the other's for answered, it would read again without a watch, perhaps before the
// other's request is there. A change between the two would be told to nobody who needs it.
func (e *claimant) listen(w watch, ask func(watch bool) error) error {
	e.mu.Lock()
	noted, stands := e.watches[w], e.stands(w)
	if noted == nil {
		noted = &standing{} // there may be one; an answer from behind it is needed
		e.watches[w] = noted
	}
	e.mu.Unlock()
	err := ask(!stands)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case stands:
	case err != nil:
		e.silent(w, err)
	case e.watches[w] == noted:
		noted.answered = true
	}
	return err
}

func (e *claimant) getWatched(ctx context.Context, path string) (answer got, err error) {
	err = e.listen(watch{path, false}, func(watch bool) error {
		answer, err = get(ctx, e.link, path, watch)
		return err
	})
	return answer, err
}

func (e *claimant) listWatched(ctx context.Context, path string) (answer listed, err error) {
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
func (e *claimant) received(ev zk.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch ev.Type {
	case zk.EventSession:
		switch ev.State {
		case zk.StateHasSession:
			if !e.connected {
				e.connected = true // for the first time: there is nothing that could have been missed
				return
			}
			e.mail.PostAll()
			clear(e.vacancies)
			for w := range e.watches {
				e.watches[w] = &standing{e.stands(w) && w.children} // a vacancy needs an answer of this connection
			}
			// The library renews its watches and says since when, by the last answer
			// it had: one that came on the new connection before it said so hides
			// what changed in between. So every queue is listed once more.
			e.m.Resumed()
		case zk.StateExpired:
			e.m.Ended(e.link.expired())
			clear(e.watches)
			clear(e.vacancies)
		}
	case zk.EventNodeDeleted:
		e.changed(ev.Path, session.Removed)
	case zk.EventNodeDataChanged:
		e.changed(ev.Path, session.Written)
	case zk.EventNodeChildrenChanged:
		e.changed(ev.Path, session.Listed)
	}
}

// changed: a node has changed whose watches, or the one of that kind, are used up by that.
// The caller holds the mutex.
func (e *claimant) changed(path string, what session.Event) {
	if what != session.Listed {
		delete(e.watches, watch{path, false})
		delete(e.vacancies, path)
	}
	if what != session.Written {
		delete(e.watches, watch{path, true})
	}
	e.m.Changed(path, what)
}

// silent: a watch may not stand. What the servers refuse they would refuse again at once.
// The caller holds the mutex.
func (e *claimant) silent(w watch, why error) {
	delete(e.watches, w)
	e.m.Deaf(w.path, w.children, errors.Is(why, zk.ErrNoNode) || indeterminate(why))
}
