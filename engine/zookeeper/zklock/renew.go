package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
)

// Bounds of one multi: a server takes less than a mebibyte in one request.
const (
	maxChecks = 2000
	maxBytes  = 512 << 10
)

// Renew implements [engine.Engine]. It is one request for two thousand claims, and
// one more for each claim whose queue has changed or behind which somebody waits.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	if err := ctx.Err(); err != nil && len(rs) > 0 {
		return nil, err
	}
	var first error
	out := make([]engine.Claim, 0, len(rs))
	var asked []*claim
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			first = orElse(first, err)
			continue
		}
		c, err := e.find(r.ID)
		if err != nil {
			return nil, err
		}
		e.mu.Lock()
		switch {
		case c == nil || c.request.Name != r.Name:
			out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
		case c.phase == making:
			first = orElse(first, fmt.Errorf("zookeeper: the node is not known to be made yet"))
		case c.phase == waiting || c.phase == holding:
			asked = append(asked, c)
		default:
			out = append(out, e.reportLocked(c))
		}
		e.mu.Unlock()
	}
	proven, err := e.prove(ctx, asked)
	first = orElse(first, err)
	looked, err := e.lookAt(ctx, proven)
	first = orElse(first, err)
	for _, c := range looked {
		out = append(out, e.report(c))
	}
	return out, first
}

func orElse(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// lookAt brings claims up to date whose queues have changed. Those that it returns
// were, or needed it not.
func (e *Engine) lookAt(ctx context.Context, cs []*claim) (done []*claim, first error) {
	errs := make([]error, len(cs))
	each(len(cs), func(i int) {
		c := cs[i]
		e.mu.Lock()
		// Who waits behind a holder may go, unseen: one watch tells of one change.
		c.stale = c.stale || c.contended
		if c.phase == holding {
			e.listensLocked(c)
		}
		idle := !c.stale && !c.unread && !c.owes
		e.mu.Unlock()
		if !idle {
			errs[i] = e.look(ctx, c, false)
		}
	})
	for i, c := range cs {
		if errs[i] != nil && e.isWaiting(c) {
			first = orElse(first, errs[i])
			continue
		}
		// What was proven of a holder is worth telling, whoever waits behind it.
		done = append(done, c)
	}
	return done, first
}

// atOnce bounds the requests that one call, or one Watch, has under way.
const atOnce = 64

func (e *Engine) isWaiting(c *claim) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.phase == waiting
}

// prove asks the ensemble to commit that the nodes of these claims stand as they
// were last read, and returns those of which it did or which are gone. That proves
// two things: that the nodes stand, and that the session does, since an expired one
// commits nothing. What a server says without a commit (its session state, a ping,
// a read) proves neither: one that is cut off goes on saying it.
func (e *Engine) prove(ctx context.Context, cs []*claim) (proven []*claim, first error) {
	for len(cs) > 0 {
		n, bytes := 0, 0
		for n < len(cs) && n < maxChecks && bytes < maxBytes {
			bytes += len(cs[n].path()) + 32
			n++
		}
		err := e.proveSome(ctx, cs[:n])
		if err == nil {
			proven = append(proven, cs[:n]...)
		}
		first = orElse(first, err)
		cs = cs[n:]
	}
	return proven, first
}

// proveSome proves what fits into one request.
func (e *Engine) proveSome(ctx context.Context, cs []*claim) error {
	const tries = 3
	for range tries {
		before, err := e.link.await(ctx)
		if err != nil {
			return err
		}
		var ops []any
		e.mu.Lock()
		for _, c := range cs {
			if c.phase == waiting || c.phase == holding {
				ops = append(ops, &zk.CheckVersionRequest{Path: c.path(), Version: c.version})
			}
		}
		e.mu.Unlock()
		if len(ops) == 0 {
			return nil
		}
		_, err = ask(ctx, e.link, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
		switch {
		case err == nil:
			// The session that committed this must be the one whose nodes they
			// are; no session comes back, so it was the same all the time.
			if after, _ := e.link.current(); after.id != before.id {
				return errors.New("zookeeper: the session ended meanwhile")
			}
			e.mu.Lock()
			for _, c := range cs {
				if c.session != 0 && c.session != before.id {
					e.endLocked(c, false)
				}
			}
			e.mu.Unlock()
			return nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
			// One does not stand as it was. Read them all, which is rare.
			if err := e.readAll(ctx, cs); err != nil {
				return err
			}
		default:
			return explain(err, e.rootPath())
		}
	}
	return errors.New("zookeeper: nodes of this client change again and again while they are checked")
}

func (e *Engine) readAll(ctx context.Context, cs []*claim) error {
	e.mu.Lock()
	for _, c := range cs {
		c.unread = true
	}
	e.mu.Unlock()
	_, err := e.lookAt(ctx, cs)
	return err
}
