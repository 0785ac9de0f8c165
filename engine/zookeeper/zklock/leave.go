package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if len(cs) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(cs), engine.MaxBatch)
	}
	if err := ctx.Err(); err != nil && len(cs) > 0 {
		return nil, err
	}
	var first error
	known := make([]engine.Claim, 0, len(cs))
	var there []*claim
	for _, q := range cs {
		if err := engine.CheckName(q.Name); err != nil {
			first = orElse(first, err)
			continue
		}
		c, err := e.find(q.ID)
		switch {
		case err != nil:
			return nil, err
		case c == nil || c.request.Name != q.Name:
			known = append(known, engine.Claim{Name: q.Name, ID: q.ID, State: engine.Gone})
		default:
			there = append(there, c)
		}
	}
	// One claim of the batch that goes may let another hold: first all are looked
	// at, then all are left.
	e.lookBeforeLeave(ctx, there)
	errs := make([]error, len(there))
	found := make([]engine.Claim, len(there))
	each(len(there), func(i int) { found[i], errs[i] = e.leave(ctx, there[i]) })
	for i := range there {
		if first = orElse(first, errs[i]); errs[i] == nil {
			known = append(known, found[i])
		}
	}
	return known, first
}

// each calls f for many, some at a time, and returns when all have returned.
func each(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			f(i)
		})
	}
	all.Wait()
}

// lookBeforeLeave: who waits may hold unseen, and Leave says what it found.
func (e *Engine) lookBeforeLeave(ctx context.Context, cs []*claim) {
	var waits []*claim
	e.mu.Lock()
	for _, c := range cs {
		if c.phase == waiting {
			c.stale = true
			waits = append(waits, c)
		}
	}
	e.mu.Unlock()
	// An error leaves it at what was last known.
	each(len(waits), func(i int) { _ = e.look(ctx, waits[i], false) })
}

// leave gives a claim up. Once it was called, the node goes, whatever becomes of the
// call: see remove.
func (e *Engine) leave(ctx context.Context, c *claim) (engine.Claim, error) {
	e.mu.Lock()
	found := e.reportLocked(c)
	found.TTL = 0
	first := e.dropLocked(c)
	e.mu.Unlock()
	select {
	case <-c.removed:
	case <-ctx.Done():
		return engine.Claim{}, fmt.Errorf("zookeeper: the node is not known to be removed yet: %w", context.Cause(ctx))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.left != nil && !errors.Is(c.left, errNotThere):
		return engine.Claim{}, explain(c.left, c.parent)
	case !first || c.left != nil:
		found.State, found.Contended = engine.Gone, false
	}
	return found, nil
}

var errNotThere = errors.New("somebody else had removed the node")

// dropLocked has the node of a claim removed, once it is known, and reports whether
// this call was the first to want that.
func (e *Engine) dropLocked(c *claim) bool {
	switch c.phase {
	case making:
		first := !c.dropped
		c.dropped = true
		return first
	case waiting, holding, marked:
		e.retireLocked(c)
		c.phase = leaving
		if e.closed {
			return true // the session ends now
		}
		e.running.Go(func() { e.remove(c) })
		return true
	}
	return false
}

// remove deletes the node of a claim, as often as it takes, until the session ends
// that it belongs to. Where the servers refuse to, it stands until then.
func (e *Engine) remove(c *claim) {
	var err error
	for ; ; e.pause() {
		var s session
		if s, err = e.link.await(e.life); err != nil {
			break // closed
		}
		if c.session != 0 && s.id != c.session {
			err = errNotThere
			break
		}
		_, err = ask(e.life, e.link, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(c.path(), -1) })
		if errors.Is(err, zk.ErrNoNode) {
			err = errNotThere
		} else if err != nil && indeterminate(err) {
			continue
		}
		break
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.phase == gone: // what replaced it has removed it
	case err == nil || errors.Is(err, errNotThere):
		c.left = err
		e.goneLocked(c)
	default:
		c.left = err
		close(c.removed) // it stays in the map: whoever asks again is told the same
	}
}
