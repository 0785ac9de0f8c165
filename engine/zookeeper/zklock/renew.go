package zklock

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/zookeeper/internal/nodes"
)

// Bounds of one multi: a server takes less than a mebibyte in one request.
const (
	maxChecks = 2000
	maxBytes  = 512 << 10
)

// Renew implements [engine.Engine]. It is one request for two thousand claims of a
// session. There is one more for each claim whose queue has changed or behind which somebody
// waits, and for each queue in which claims wait for permits behind another waiter.
// A claim whose node this client may not read is left out, and the error names its node.
// Beside two thousand others it costs some twenty requests more.
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	out := make([]engine.Claim, 0, len(rs))
	var errs []error
	asked := map[*claimant][]*claim{}
	for _, r := range rs {
		of, c := e.find(r.Name, r.ID)
		if c == nil {
			out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
			continue
		}
		e.mu.Lock()
		switch {
		case c.Phase.Wanted():
			asked[of] = append(asked[of], c)
		case c.Phase == session.Making:
			errs = append(errs, of.link.away(errors.New("the node is not known to be made yet")))
		default:
			out = append(out, of.m.Found(c))
		}
		e.mu.Unlock()
	}
	// Side by side: a session that no server serves is no other's affair.
	all := slices.Collect(maps.Keys(asked))
	got, failed := make([][]engine.Claim, len(all)), make([]error, len(all))
	each(len(all), func(i int) { got[i], failed[i] = all[i].renew(ctx, asked[all[i]]) })
	return slices.Concat(append(got, out)...), cmp.Or(append(errs, failed...)...)
}

// renew proves claims of one session, and brings those up to date whose queues have changed.
func (e *claimant) renew(ctx context.Context, cs []*claim) ([]engine.Claim, error) {
	proven, first := e.prove(ctx, cs)
	e.catchUp(ctx, proven)
	errs := e.update(ctx, proven)
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]engine.Claim, 0, len(proven))
	for i, c := range proven {
		// What was proven of a holder is worth telling, whoever waits behind it.
		if errs[i] != nil && !c.Phase.Holds() && c.Phase.Wanted() {
			first = cmp.Or(first, errs[i])
			continue
		}
		out = append(out, e.report(c))
	}
	return out, first
}

// catchUp has those look who wait for permits and whose turn came unheard. Such a claim relies on
// the client of the claim before it, which writes to its node when that comes to hold. A client
// that is stopped or cut off does not:
//
//	A                    leaves                 leaves
//	B, stopped                  holds, unaware
//	C, watches B's node                                has room, and hears nothing
//
// One list serves all claims of a queue. The first that does not hold looks too, and watches the
// queue from then on. An error leaves all at what was last known: the next Renew lists again.
func (e *claimant) catchUp(ctx context.Context, cs []*claim) {
	relying := map[string][]*claim{} // by queue
	e.mu.Lock()
	for _, c := range cs {
		n := nodes.Node{Permits: c.Permits, Limit: c.Limit}
		if c.Phase == session.Waiting && n.Counted() && !slices.Contains(c.Ahead, session.Node{Key: c.Queue}) {
			relying[c.Queue] = append(relying[c.Queue], c)
		}
	}
	e.mu.Unlock()
	queues := slices.Collect(maps.Keys(relying))
	each(len(queues), func(i int) {
		there, err := e.list(ctx, queues[i])
		if err != nil {
			return
		}
		next := map[string]bool{} // who holds, and who is the first that does not
		for _, n := range there.line[:min(there.line.Holders()+1, len(there.line))] {
			next[n.Name] = true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, c := range relying[queues[i]] {
			if next[c.node()] {
				e.m.Owe(c, session.Queue)
			}
		}
	})
}

// update looks at claims for which something is due.
func (e *claimant) update(ctx context.Context, cs []*claim) []error {
	errs := make([]error, len(cs))
	each(len(cs), func(i int) {
		c := cs[i]
		e.mu.Lock()
		if c.Contended {
			e.m.Owe(c, session.Queue) // who waits behind it may go, unseen: one watch tells of one change
		}
		if c.Phase.Holds() {
			e.m.Settle(c)
		}
		idle := c.Due == 0
		e.mu.Unlock()
		if !idle {
			errs[i] = e.look(ctx, c)
		}
	})
	return errs
}

// atOnce bounds the requests that one call has under way, and a Watch for each session.
const atOnce = 64

// prove asks the ensemble to commit that the nodes of these claims stand as they
// were last read, and returns those of which it did or which are gone. That proves
// two things: that the nodes stand, and that the session does, since an expired one
// commits nothing. What a server says without a commit (its session state, a ping,
// a read) proves neither: one that is cut off goes on saying it.
func (e *claimant) prove(ctx context.Context, cs []*claim) (proven []*claim, first error) {
	for len(cs) > 0 {
		n, bytes := 0, 0
		for n < len(cs) && n < maxChecks && bytes < maxBytes {
			bytes += len(cs[n].Key) + 32
			n++
		}
		some, err := e.proveApart(ctx, cs[:n])
		proven, first = append(proven, some...), cmp.Or(first, err)
		cs = cs[n:]
	}
	return proven, first
}

// proveApart proves what fits into one request. A node that this client may not read fails the
// request for all. Then each half is proven by itself, until that claim alone is not.
func (e *claimant) proveApart(ctx context.Context, cs []*claim) (proven []*claim, first error) {
	err := e.proveSome(ctx, cs)
	switch {
	case err == nil:
		return cs, nil
	case len(cs) == 1 || !errors.Is(err, engine.ErrRefused):
		return nil, err
	}
	half := len(cs) / 2
	proven, first = e.proveApart(ctx, cs[:half])
	others, err := e.proveApart(ctx, cs[half:])
	return slices.Concat(proven, others), cmp.Or(first, err)
}

// proveSome proves what fits into one request.
func (e *claimant) proveSome(ctx context.Context, cs []*claim) error {
	const tries = 3
	for range tries {
		before, err := e.link.await(ctx)
		if err != nil {
			return err
		}
		var ops []any
		e.mu.Lock()
		for _, c := range cs {
			if c.Phase.Wanted() {
				ops = append(ops, &zk.CheckVersionRequest{Path: c.Key, Version: c.version})
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
				if c.Session != 0 && c.Session != before.id {
					e.m.Lost(c)
				}
			}
			e.mu.Unlock()
			return nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
			// One does not stand as it was. Read them all, which is rare.
			if err := e.readAll(ctx, cs); err != nil {
				return err
			}
		case len(cs) == 1:
			return explain(err, cs[0].Key)
		default:
			return explain(err, e.rootPath())
		}
	}
	return errors.New("zookeeper: nodes of this client change again and again while they are checked")
}

func (e *claimant) readAll(ctx context.Context, cs []*claim) error {
	e.mu.Lock()
	for _, c := range cs {
		e.m.Owe(c, session.Own)
	}
	e.mu.Unlock()
	return cmp.Or(e.update(ctx, cs)...)
}
