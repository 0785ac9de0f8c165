package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/zookeeper/internal/nodes"
)

// Engine is one client of a ZooKeeper: one session, however many names.
type Engine struct {
	link   *link
	root   string // "" or "/a/b"
	layout nodes.Layout
	acl    []zk.ACL
	ttl    time.Duration // half of the session that was granted first

	life    context.Context // of requests that outlive their callers
	end     context.CancelFunc
	running sync.WaitGroup // what outlives its caller

	mu     sync.Mutex
	closed bool
	claims map[engine.ID]*claim
	// By path of what is watched: the nodes of claims, what they wait for, and
	// the nodes of names.
	own     map[string]*claim
	awaited map[string]map[*claim]struct{}
	lines   map[string]map[*claim]struct{}
	// Watches that were asked for and have not fired, and whether they were answered: see
	// listen.
	watches  map[watch]bool
	listings map[string]*listings // by parent, while somebody waits for one
	creating chan struct{}        // room for those that make nodes
	news     news
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Checker = (*Engine)(nil)
)

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        e.layout.Modes(),
		Fencing:      engine.FencingAlways,
		Failover:     engine.FailoverConsensus,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashSession,
		SeesWaiters:  true,
		MinTTL:       e.ttl,
		MaxTTL:       e.ttl,
	}
}

// granted is for how long a claim may be trusted from the start of a call that
// proved it.
//
// Half of the session's time, for the server that ends a session counts from when
// it last heard of it, and that is before the proof: the server that a client is
// connected to passes on only every half tick who of its clients was there, and a
// client that has nothing to say is silent for a third of its session. A session of
// four ticks loses at most an eighth and a third of it so.
func (e *Engine) granted(s session) time.Duration { return min(e.ttl, s.timeout/2) }

func (e *Engine) parent(name string) string { return e.root + "/" + nodes.Encode(name) }

// check refuses what this engine cannot do.
func (e *Engine) check(r *engine.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	g := e.Guarantees()
	if err := g.Check(r); err != nil {
		return err
	}
	if g.Modes&engine.Permits == 0 && r.Limit != engine.Max {
		// n of n excludes as well, but these names cannot tell the two apart.
		return fmt.Errorf("%w: this layout has no permits: %w", engine.ErrRefused, errors.ErrUnsupported)
	}
	return nil
}

// find is a claim of this client. One that it does not know is gone: nodes end with
// their session, and this engine is the only one who has it.
func (e *Engine) find(id engine.ID) (*claim, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, engine.ErrClosed
	}
	return e.claims[id], nil
}

// report is what the owner of a claim is told in a reply, and knows from then on.
func (e *Engine) report(c *claim) engine.Claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.notified, c.unheard = c.contended, false
	return e.reportLocked(c)
}

func (e *Engine) reportLocked(c *claim) engine.Claim {
	r := engine.Claim{Name: c.request.Name, ID: c.request.ID, Ticket: c.ticket, Permits: c.request.Permits, Limit: c.request.Limit}
	switch c.phase {
	case waiting:
		r.State = engine.Waiting
	case holding:
		r.State, r.Contended = engine.Held, c.contended
	case marked:
		r.State, r.Revoked = engine.Gone, true
		return r
	default:
		r.State, r.Revoked = engine.Gone, c.revoked
		return r
	}
	s, _ := e.link.current()
	r.TTL = e.granted(s)
	return r
}

// forget ends a claim whose node has gone.
func (e *Engine) forget(c *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retireLocked(c)
	e.goneLocked(c)
}

// goneLocked: its node has gone, or never was. Who removes it may learn that after
// somebody else did: what replaced it went in one step with it.
func (e *Engine) goneLocked(c *claim) {
	if c.phase == gone {
		return
	}
	c.phase = gone
	if e.claims[c.request.ID] == c {
		delete(e.claims, c.request.ID)
	}
	close(c.removed)
}

// retireLocked: nothing is listened for any more.
func (e *Engine) retireLocked(c *claim) {
	if c.node != "" && e.own[c.path()] == c {
		delete(e.own, c.path())
	}
	e.unwatchLocked(c)
	if all := e.lines[c.parent]; all != nil {
		if delete(all, c); len(all) == 0 {
			delete(e.lines, c.parent)
		}
	}
}

// unwatchLocked: what it waited for does not matter to it any more.
func (e *Engine) unwatchLocked(c *claim) {
	if all := e.awaited[c.watches]; all != nil {
		if delete(all, c); len(all) == 0 {
			delete(e.awaited, c.watches)
		}
	}
	c.watches = ""
}

// Close implements [engine.Engine]: it ends the session, and with it every claim, in
// one request. Without a server they end when the session times out, which the
// error says. It is bounded by some five seconds.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	n := len(e.claims)
	e.mu.Unlock()
	s, up := e.link.current()
	e.end()
	e.link.close()
	e.running.Wait() // the library has answered everything that was asked
	if n > 0 && !up && s.id != 0 {
		return fmt.Errorf("zookeeper: no server was told: %d claims end with their session, within %v", n, s.timeout)
	}
	return nil
}

// explain says what an answer means for somebody who asked about a path.
func explain(err error, path string) error {
	switch {
	case err == nil || errors.Is(err, engine.ErrRefused):
		return err
	case errors.Is(err, zk.ErrNoAuth):
		return engine.Refuse("zookeeper: this client may not use %s: give it a user that may, or the node an ACL that lets it read, write, create and delete (the package documentation has the least that is needed)", path)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return engine.Refuse("zookeeper: %s is somebody's ephemeral node, and has nothing below it: remove it, or choose another name", path)
	case errors.Is(err, zk.ErrInvalidACL):
		return engine.Refuse("zookeeper: the server accepts no ACL for %s from this client: it is not authenticated", path)
	case strings.HasPrefix(err.Error(), "zookeeper: "):
		return err
	}
	return fmt.Errorf("zookeeper: %s: %w", path, err)
}
