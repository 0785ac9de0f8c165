package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
)

// lifeline is an etcd lease that claims of one class of TTL live by, detached ones
// excepted, and what is proven of it:
//
//	alive until = start of the last successful keep-alive + the TTL in its answer
//
// The client library's Session counts from when the answer came, and so goes on
// trusting a lease that the server may have ended. It also keeps alive in the
// background whatever its caller is doing, which leaves nobody to ask when the
// last success was.
//
// A new lease never inherits claims: those of the old one are gone with it.
type lifeline struct {
	seconds         int64              // how long the lease is to last
	renewalInterval time.Duration      // how often it is kept alive
	end             context.CancelFunc // of what keeps it alive
	voidKey         string
	proving         lock // one keep-alive at a time; mu is not held while it is on its way

	// Under the engine's mu.
	id    clientv3.LeaseID // 0: there is none
	asked time.Duration    // start of the last success
	until time.Duration
	term  uint64 // in which the lease was granted, or an earlier one: see term.go
	void  int64  // the revision at which the void key was written, as far as is known
}

// class is those of a claim.
type class = session.Class[*lifeline]

// An etcd lease is kept alive every sixth of its TTL, and lasts at least six fifths
// of what claims are granted. So a Join needs no keep-alive of its own: what it
// grants is proven already.
const renewalIntervals = 6

// seconds is how long the etcd lease is to last whose claims are granted ttl.
// etcd counts in whole seconds.
func seconds(ttl time.Duration) int64 {
	return int64((ttl*renewalIntervals/(renewalIntervals-1) + time.Second - 1) / time.Second)
}

// trusted is what claims may be granted whose etcd lease lasts so long.
func trusted(lease time.Duration) time.Duration {
	return lease * (renewalIntervals - 1) / renewalIntervals
}

// use is the class of claims with that TTL, with one more use.
func (e *Engine) use(ttl time.Duration) (*class, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil {
		return nil, engine.ErrClosed
	}
	return e.classes.For(max(ttl, e.least), boottime.Now())
}

// unuse ends one use.
func (e *Engine) unuse(c *class) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.classes.Done(c, boottime.Now())
}

// open begins a class, and what keeps its lease alive. With mu held.
func (e *Engine) open(ttl time.Duration) *lifeline {
	e.opened++
	life, end := context.WithCancel(e.life)
	s := &lifeline{seconds: seconds(ttl), end: end, proving: make(lock, 1), voidKey: fmt.Sprint(e.keys.void(e.name), "/", e.opened)}
	s.renewalInterval = time.Duration(s.seconds) * time.Second / renewalIntervals
	e.tasks.Go(func() { e.keep(life, s) })
	return s
}

// giveUp ends a class that nobody uses, and its lease. With mu held.
func (e *Engine) giveUp(s *lifeline) {
	s.end()
	if id := s.id; id != 0 && e.life.Err() == nil {
		s.id = 0
		e.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(e.life, e.bounds.closing)
			defer cancel()
			_, _ = e.client.Revoke(ctx, id) // else it ends by itself
		})
	}
}

// lives are those of all classes.
func (e *Engine) lives() (all []*lifeline) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.classes.Opened() {
		all = append(all, c.Session)
	}
	return all
}

// of is the session whose lease that is, or nil.
func (e *Engine) of(id clientv3.LeaseID) *lifeline {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.classes.Opened() {
		if c.Session.id == id {
			return c.Session
		}
	}
	return nil
}

// shortest is the shortest TTL that is in use.
func (e *Engine) shortest() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	ttl := engine.MaxTTL
	for _, c := range e.classes.Opened() {
		ttl = min(ttl, c.TTL)
	}
	return ttl
}

// grant makes an etcd lease. The TTL that counts is the one in the answer: etcd
// raises what is too short for its elections. name makes its identifier; nil: etcd does,
// and it is none of a session.
func (e *Engine) grant(ctx context.Context, seconds int64, name func() clientv3.LeaseID) (clientv3.LeaseID, time.Duration, error) {
	var r *pb.LeaseGrantResponse
	for {
		err := e.again(ctx, one(func(ctx context.Context) (err error) {
			ask := &pb.LeaseGrantRequest{TTL: seconds}
			if name != nil {
				ask.ID = int64(name())
			}
			r, err = pb.NewLeaseClient(e.client.ActiveConnection()).LeaseGrant(ctx, ask)
			return rpctypes.Error(err)
		}))
		switch {
		case errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) && ctx.Err() == nil:
			// The identifier that a member made up is another lease's, by chance or because
			// that member's own ones came round: the next is another.
		case err != nil:
			return 0, 0, err
		case name == nil && isSession(clientv3.LeaseID(r.ID)): // by chance
		default:
			return clientv3.LeaseID(r.ID), time.Duration(r.TTL) * time.Second, nil
		}
	}
}

// begin is the lease of a session, a new one if there is none.
func (e *Engine) begin(ctx context.Context, s *lifeline) (clientv3.LeaseID, error) {
	if id := e.current(s).id; id != 0 {
		return id, nil
	}
	if err := s.proving.lock(ctx); err != nil {
		return 0, err
	}
	defer s.proving.unlock()
	if id := e.current(s).id; id != 0 {
		return id, nil // while this call waited, another began it
	}
	term, err := e.term(ctx)
	if err != nil {
		return 0, err
	}
	start := boottime.Now()
	id, ttl, err := e.grant(ctx, s.seconds, newSessionID)
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	s.id, s.asked, s.until, s.term, s.void = id, start, start+ttl, term, 0
	e.mu.Unlock()
	return id, nil
}

// known is what is known of a session at one moment.
type known struct {
	id           clientv3.LeaseID
	asked, until time.Duration
	void         int64
}

func (e *Engine) current(s *lifeline) known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return known{s.id, s.asked, s.until, s.void}
}

// errLeaseGone: the etcd lease has ended, and all of its keys with it.
var errLeaseGone = errors.New("the etcd lease has ended")

// prove makes sure that the lease of a session lives until the given time at least, by
// asking only if that is not known yet. Errors: errLeaseGone; errReplaced; any other:
// nothing learned.
func (e *Engine) prove(ctx context.Context, s *lifeline, id clientv3.LeaseID, until time.Duration) error {
	if e.proven(s, id, until) {
		return nil
	}
	if err := s.proving.lock(ctx); err != nil {
		return err
	}
	defer s.proving.unlock()
	if e.proven(s, id, until) {
		return nil // while this call waited, another asked
	}
	if e.current(s).id != id {
		return errReplaced
	}
	lives, err := hedge(ctx, e.bounds.hedge, func(ctx context.Context) (proof, error) {
		start, ttls, err := e.alive(ctx, id)
		if err != nil {
			return proof{}, err
		}
		return proof{ttl: ttls[0], start: start}, nil
	})
	if err != nil {
		return err
	}
	start, ttl := lives.start, lives.ttl
	if ttl <= 0 {
		e.sessionEnded(id)
		return errLeaseGone
	}
	term, err := hedge(ctx, e.bounds.hedge, e.term)
	if err != nil {
		return err
	}
	e.mu.Lock()
	same := s.term == term
	if s.id == id && same {
		s.asked, s.until = start, max(s.until, start+ttl)
	}
	e.mu.Unlock()
	if !same {
		if err := e.replace(ctx, s, id, term); err != nil {
			return err
		}
		return errReplaced
	}
	return enough(start, ttl, until)
}

// proveOwn is prove for a lease that one claim has for itself, once.
func (e *Engine) proveOwn(ctx context.Context, id clientv3.LeaseID, until time.Duration) error {
	start, ttls, err := e.alive(ctx, id)
	if err != nil {
		return err
	}
	return enough(start, ttls[0], until)
}

// alive keeps leases alive, and says from when on each lives for how long: zero if it
// has ended.
func (e *Engine) alive(ctx context.Context, ids ...clientv3.LeaseID) (start time.Duration, ttls []time.Duration, err error) {
	for {
		err = e.again(ctx, one(func(ctx context.Context) (err error) {
			start = boottime.Now()
			ttls, err = e.keepAlive(ctx, ids...)
			return err
		}))
		if err != nil {
			return 0, nil, err
		}
		lives := false // one of those that are said to have ended
		for i, ttl := range ttls {
			if ttl <= 0 && !lives {
				if lives, err = e.writable(ctx, ids[i]); err != nil {
					return 0, nil, err
				}
			}
		}
		if !lives {
			return start, ttls, nil
		}
		if err := e.pause(ctx, staleSoon); err != nil {
			return 0, nil, err
		}
	}
}

// staleSoon is how long a former leader is given to learn that it is none.
const staleSoon = 100 * time.Millisecond

// sessionEnded: etcd does not know that lease any more.
func (e *Engine) sessionEnded(id clientv3.LeaseID) {
	s := e.of(id)
	if s == nil {
		return
	}
	e.mu.Lock()
	if s.id == id {
		s.id, s.until = 0, 0
	}
	e.mu.Unlock()
	e.table.mu.Lock()
	e.table.m.Ended(int64(id))
	e.table.mu.Unlock()
	e.mail.PostAll() // what waits to be told may be more than the mailbox keeps
}

func (e *Engine) proven(s *lifeline, id clientv3.LeaseID, until time.Duration) bool {
	now := e.current(s)
	return now.id == id && until <= now.until
}

// keepAlive asks once for each lease, on one stream, and returns for how long each
// lives from now on: zero, if it has ended. The library's KeepAliveOnce asks again and
// again without a pause while there is no connection.
func (e *Engine) keepAlive(ctx context.Context, ids ...clientv3.LeaseID) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(e.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return nil, rpctypes.Error(err)
	}
	for _, id := range ids {
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
			return nil, rpctypes.Error(err)
		}
	}
	ttls := make([]time.Duration, len(ids))
	for i := range ids { // in their order
		r, err := stream.Recv()
		if err != nil {
			return nil, rpctypes.Error(err)
		}
		ttls[i] = time.Duration(r.TTL) * time.Second
		e.past.atLeast(r.Header.GetRevision())
	}
	return ttls, nil
}

// proof is what is known of a lease: for how long it may be trusted from the start of
// the call that asked, or why not.
type proof struct {
	ttl   time.Duration
	err   error
	start time.Duration // of that call, where it is not known anyway
}

// proveEach is prove for all leases that some claims hang on. Detached claims have
// one each: those share requests.
func (e *Engine) proveEach(ctx context.Context, claims []*asked, start time.Duration) map[clientv3.LeaseID]proof {
	proofs := map[clientv3.LeaseID]proof{}
	var own []clientv3.LeaseID
	for _, a := range claims {
		if _, asked := proofs[a.lease]; asked || a.lease == 0 {
			continue
		}
		proofs[a.lease] = proof{}
		if c := a.class(); c == nil {
			own = append(own, a.lease)
		} else {
			proofs[a.lease] = proof{ttl: c.TTL, err: e.prove(ctx, c.Session, a.lease, start+c.TTL)}
		}
	}
	for some := range slices.Chunk(own, maxOps) {
		_, ttls, err := e.alive(ctx, some...)
		for i, id := range some {
			switch {
			case err != nil:
				proofs[id] = proof{err: err}
			case ttls[i] <= 0:
				proofs[id] = proof{err: errLeaseGone}
			default:
				proofs[id] = proof{ttl: trusted(ttls[i])}
			}
		}
	}
	return proofs
}

// enough: a keep-alive that was sent at start and answered with that TTL proves the
// lease until then. Errors: errLeaseGone; it does not.
func enough(start, ttl, until time.Duration) error {
	switch {
	case ttl <= 0:
		return errLeaseGone
	case start+ttl < until:
		return fmt.Errorf("etcd keeps the lease alive for %v only", ttl)
	}
	return nil
}

func leaseGone(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }

// keep keeps a session alive, beat by beat, and has those given up that nobody uses.
// It is the only thing here that happens by the clock: a session that nobody kept would
// end under claims that nobody renews. Without a lease it does nothing, unless claims hang on a
// former one: the lease that replaced it ended before they were attached to it.
func (e *Engine) keep(life context.Context, s *lifeline) {
	ticker := time.NewTicker(s.renewalInterval)
	defer ticker.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
		e.mu.Lock()
		e.classes.Sweep(boottime.Now())
		e.mu.Unlock()
		e.forgetHandedOver(life, s)
		now := e.current(s)
		stranded := now.id == 0 && e.table.stranded(s)
		if !stranded && (now.id == 0 || boottime.Now()-now.asked < s.renewalInterval/2) {
			continue
		}
		// An answer that takes longer is of no use to the next Join. Whatever the
		// error is, the next beat asks again; a lease that has ended is told by
		// prove.
		ctx, cancel := context.WithTimeout(life, 2*s.renewalInterval)
		if stranded {
			_, _ = e.begin(ctx, s)
		} else {
			_ = e.prove(ctx, s, now.id, now.until+1)
		}
		if s.proving.lock(ctx) == nil {
			_ = e.attachAll(ctx, s) // what a replacement has left
			s.proving.unlock()
		}
		cancel()
	}
}

// lock is a mutex that a context ends the waiting for. As many have it as its
// capacity.
type lock chan struct{}

func (l lock) lock(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) unlock() { <-l }
