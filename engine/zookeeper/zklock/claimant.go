package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
	"leasehold/internal/coalesce"
)

// claimant is one session, and the claims that live by it.
type claimant struct {
	*Engine
	link *link
	ttl  time.Duration // half of the session that is asked for

	life context.Context // of requests that outlive their callers
	end  context.CancelFunc

	started chan struct{} // closed when it may be used, or never will be

	// Under the engine's mutex.
	failed    error // started: why it never will be
	connected bool  // it has had a session
	m         session.Machine[*claim]
	watches   map[watch]*standing  // that were asked for and have not fired: see listen
	looks     map[*claim]struct{}  // what Watch is to look at
	lookers   int                  // how many goroutines do, atOnce at most
	listings  map[string]*listings // by parent, while somebody waits for one
	creating  chan struct{}        // room for those that make nodes

	group coalesce.Group[*step, outcome]

	vacancies map[string]*vacancy // by queue
}

// newClaimant begins to connect.
func (e *Engine) newClaimant(ttl time.Duration) *claimant {
	of := &claimant{
		Engine: e, ttl: ttl, started: make(chan struct{}), watches: map[watch]*standing{},
		looks: map[*claim]struct{}{}, listings: map[string]*listings{}, creating: make(chan struct{}, mostCreated),
		vacancies: map[string]*vacancy{},
	}
	of.m.Notify = e.mail.Post
	of.m.PollAfter = of.lookSoon
	of.m.Over = func(c *claim) {
		select {
		case <-c.removed: // its Leave was refused, and now its session has ended
		default:
			close(c.removed)
		}
		e.classes.Done(c.class, boottime.Now())
	}
	of.m.Start()
	of.gather()
	of.life, of.end = context.WithCancel(e.life)
	of.link = connect(of.life, &e.options, 2*ttl, of.received)
	e.spawn(of.start)
	return of
}

// start waits for the session, and for the servers to know the user.
func (e *claimant) start() {
	var failed error
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.failed = failed
		close(e.started)
	}()
	for {
		s, err := e.link.await(e.life)
		if err != nil {
			failed = err
			return
		}
		if o := &e.options; o.User != "" {
			_, err = ask(e.life, e.link, func(conn *zk.Conn) (struct{}, error) {
				return struct{}{}, conn.AddAuth("digest", []byte(o.User+":"+o.Password))
			})
		}
		switch {
		case err == nil && s.timeout > 2*e.ttl && e.shortest > 0:
			failed = engine.Refuse("zookeeper: the servers keep a session for %v now, not for the %v of a TTL of %v, and would keep a dead client's claims for that time: open this client anew", s.timeout, 2*e.ttl, e.ttl)
			return
		case err == nil:
			return
		case !indeterminate(err):
			failed = fmt.Errorf("zookeeper: the servers do not let user %q in: %w", e.options.User, err)
			return
		}
		e.pause()
	}
}

// ready waits until it may be used.
func (e *claimant) ready(ctx context.Context) error {
	select {
	case <-e.started:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.failed
	case <-ctx.Done():
		return e.link.away(context.Cause(ctx))
	}
}

// close ends the session.
func (e *claimant) close() error {
	e.mu.Lock()
	n := len(e.m.Claims)
	e.mu.Unlock()
	s, up := e.link.current()
	e.end()
	e.link.close()
	if n > 0 && !up && s.id != 0 {
		return fmt.Errorf("zookeeper: close the session: no server answered; %d claims end with it, within %v", n, s.timeout)
	}
	return nil
}

// granted is for how long a claim may be trusted from the start of a call that
// proved it.
//
// Half of the session's time, for the server that ends a session counts from when
// it last heard of it, and that is before the proof: the server that a client is
// connected to passes on only every half tick who of its clients was there, and a
// client that has nothing to say is silent for a third of its session. A session of
// four ticks loses at most an eighth and a third of it so.
func (e *claimant) granted(c *claim, s grant) time.Duration { return min(c.ttl, s.timeout/2) }

// report is what the owner of a claim is told in a reply, and knows from then on. The
// caller holds the mutex.
func (e *claimant) report(c *claim) engine.Claim {
	r := e.m.Report(c)
	if r.State != engine.Gone {
		s, _ := e.link.current()
		r.TTL = e.granted(c, s)
	}
	return r
}

// explain says what an answer means for somebody who asked about a path.
func explain(err error, path string) error {
	switch {
	case err == nil || errors.Is(err, engine.ErrRefused):
		return err
	case errors.Is(err, zk.ErrNoAuth):
		return engine.Refuse("zookeeper: this client may not use %s: connect as another user, or let the node's ACL allow this one to read, write, create and delete (see the package documentation)", path)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return engine.Refuse("zookeeper: %s is an ephemeral node, which cannot have children: remove it, or choose another name", path)
	case errors.Is(err, zk.ErrInvalidACL):
		return engine.Refuse("zookeeper: the server accepts no ACL for %s from this client: authenticate it with a user", path)
	case strings.HasPrefix(err.Error(), "zookeeper: "):
		return err
	}
	return fmt.Errorf("zookeeper: %s: %w", path, err)
}
