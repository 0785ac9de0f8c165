package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	out := make([]engine.Claim, 0, len(cs))
	var there []known
	for _, q := range cs {
		if of, c := e.find(q.Name, q.ID); c != nil {
			there = append(there, known{of, c})
		} else {
			out = append(out, engine.Claim{Name: q.Name, ID: q.ID, State: engine.Gone})
		}
	}
	// One claim of the batch that goes may let another hold: first all are looked
	// at, then all are left. Who waits may hold unseen; an error leaves it at what was
	// last known.
	each(len(there), func(i int) {
		of, c := there[i].of, there[i].c
		e.mu.Lock()
		waits := c.Phase == session.Waiting
		if waits {
			of.m.Owe(c, session.Queue)
		}
		e.mu.Unlock()
		if waits {
			_ = of.look(ctx, c)
		}
	})
	errs, found := make([]error, len(there)), make([]engine.Claim, len(there))
	each(len(there), func(i int) { found[i], errs[i] = there[i].of.leave(ctx, there[i].c) })
	for i := range there {
		if errs[i] == nil {
			out = append(out, found[i])
		}
	}
	return out, cmp.Or(errs...)
}

// known is a claim of this client, and whose.
type known struct {
	of *claimant
	c  *claim
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

// leave gives a claim up. Once it was called, the node goes, whatever becomes of the
// call: see remove.
func (e *claimant) leave(ctx context.Context, c *claim) (engine.Claim, error) {
	e.mu.Lock()
	found := e.m.Found(c)
	first := e.drop(c)
	e.mu.Unlock()
	select {
	case <-c.removed:
	case <-ctx.Done():
		return engine.Claim{}, e.link.away(fmt.Errorf("the node is not known to be removed yet: %w", context.Cause(ctx)))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case c.left != nil && !errors.Is(c.left, errNotThere):
		return engine.Claim{}, explain(c.left, c.Queue)
	case !first || c.left != nil:
		found.State, found.Contended = engine.Gone, false
	}
	return found, nil
}

var (
	errNotThere       = errors.New("somebody else had removed the node")
	errPerhapsRemoved = errors.New("the answer to a Leave was lost: the claim has left, but may have ended before")
)

// drop has the node of a claim removed, once it is known, and reports whether this call
// was the first to want that. The caller holds the mutex. (Where it is too late for a
// goroutine the session ends now.)
func (e *claimant) drop(c *claim) (first bool) {
	first, remove := e.m.Leave(c)
	if remove {
		e.vacate(c)
		e.spawn(func() { e.remove(c) })
	}
	return first
}

// remove deletes the node of a claim, as often as it takes, until the session ends
// that it belongs to. Where the servers refuse to, it stands until then.
func (e *claimant) remove(c *claim) {
	var err error
	before := false // an attempt may have been carried out
	for ; ; e.pause() {
		var s grant
		if s, err = e.link.await(e.life); err != nil {
			break // closed
		}
		if c.Session != 0 && s.id != c.Session {
			err = errNotThere
			break
		}
		var sent bool
		sent, err = e.removeIn(s, c, before)
		if errors.Is(err, zk.ErrNoNode) && before {
			err = errPerhapsRemoved
		} else if errors.Is(err, zk.ErrNoNode) {
			err = errNotThere
		} else if err != nil && indeterminate(err) {
			before = before || sent
			continue
		}
		break
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.Phase != session.Leaving {
		return // what replaced it has removed it
	}
	if c.vacancy != nil && err == nil {
		c.vacancy.empty = true
	}
	if c.left = err; err == nil || errors.Is(err, errNotThere) || errors.Is(err, errPerhapsRemoved) {
		e.m.Left(c)
		return
	}
	e.m.Abandon(c) // it stays known: whoever asks again is told the same
	close(c.removed)
}

// removeIn deletes the node of a claim, in a session. again: that may have been done before.
//
// In the plain layout a path does not say whose node it is. The servers remove the node of a
// name that nobody uses, and the numbers in the next one begin anew:
//
//	A   Delete 0, whose answer is lost                              Delete 0, again
//	                                    name removed, made anew
//	B                                                       makes 0
//
// So the node is looked at before a repetition, and where it is not known which session made it.
func (e *claimant) removeIn(s grant, c *claim, again bool) (sent bool, err error) {
	if (again || c.Session == 0) && !e.layout.Protected() {
		if err := e.ownStands(s, c); err != nil {
			return false, err
		}
	}
	return true, e.commit(&step{c.Queue, &zk.DeleteRequest{Path: c.Key, Version: -1}, s.id}).err
}

// ownStands returns an error if the node of a claim does not stand in that session, or if it
// is not known. An earlier Delete is done or refused before it looks: see recover.
func (e *claimant) ownStands(s grant, c *claim) error {
	if err := e.barrier(e.life); err != nil {
		return err
	}
	stat, err := ask(e.life, e.link, func(conn *zk.Conn) (*zk.Stat, error) {
		_, stat, err := conn.Exists(c.Key) // which needs no permission
		return stat, err
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if stat.EphemeralOwner != s.id || c.Ticket != 0 && c.Ticket != uint64(stat.Czxid) {
		return zk.ErrNoNode
	}
	c.Ticket = uint64(stat.Czxid) // for the next repetition
	return nil
}
