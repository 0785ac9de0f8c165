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

	"leasehold/internal/boottime"
)

// session is the one etcd lease that all of a client's claims live by, detached
// ones excepted, and what is proven of it:
//
//	alive until = start of the last successful keep-alive + the TTL in its answer
//
// The client library's Session counts from when the answer came, and so goes on
// trusting a lease that the server may have ended. It also keeps alive in the
// background whatever its caller is doing, which leaves nobody to ask when the
// last success was.
//
// A new session never inherits claims: those of the old lease are gone with it.
type session struct {
	id              clientv3.LeaseID
	renewalInterval time.Duration
	asked           time.Duration // start of the last success
	until           time.Duration
	void            int64 // the revision at which the void key was written, as far as is known
}

// An etcd lease is kept alive every sixth of its TTL, and lasts at least six fifths
// of what claims are granted. So a Join needs no keep-alive of its own: what it
// grants is proven already.
const renewalIntervals = 6

// seconds is how long the etcd lease is to last whose claims are granted ttl.
// etcd counts in whole seconds.
func seconds(ttl time.Duration) int64 {
	return int64((ttl*renewalIntervals/(renewalIntervals-1) + time.Second - 1) / time.Second)
}

// grant makes an etcd lease. The TTL that counts is the one in the answer: etcd
// raises what is too short for its elections.
func (e *Engine) grant(ctx context.Context, seconds int64) (clientv3.LeaseID, time.Duration, error) {
	var r *clientv3.LeaseGrantResponse
	for {
		err := e.again(ctx, one(func(ctx context.Context) (err error) {
			r, err = e.client.Grant(ctx, seconds)
			return err
		}))
		switch {
		case errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) && ctx.Err() == nil:
			// The identifier that a member made up is another lease's, by chance or because
			// that member's own ones came round: the next is another.
		case err != nil:
			return 0, 0, err
		default:
			return r.ID, time.Duration(r.TTL) * time.Second, nil
		}
	}
}

// begin is the session, a new one if there is none.
func (e *Engine) begin(ctx context.Context) (clientv3.LeaseID, error) {
	if s := e.current(); s.id != 0 {
		return s.id, nil
	}
	if err := e.proving.lock(ctx); err != nil {
		return 0, err
	}
	defer e.proving.unlock()
	if s := e.current(); s.id != 0 {
		return s.id, nil // while this call waited, another began it
	}
	start := boottime.Now()
	id, ttl, err := e.grant(ctx, seconds(e.ttl))
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	e.session = session{id: id, renewalInterval: ttl / renewalIntervals, asked: start, until: start + ttl}
	e.mu.Unlock()
	return id, nil
}

func (e *Engine) current() session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session
}

// errLeaseGone: the etcd lease has ended, and all of its keys with it.
var errLeaseGone = errors.New("the etcd lease has ended")

// prove makes sure that a lease lives until the given time at least, by asking
// only if that is not known yet. Errors: errLeaseGone; any other: nothing learned.
func (e *Engine) prove(ctx context.Context, id clientv3.LeaseID, until time.Duration) error {
	if e.proven(id, until) {
		return nil
	}
	if err := e.proving.lock(ctx); err != nil {
		return err
	}
	defer e.proving.unlock()
	if e.proven(id, until) {
		return nil // while this call waited, another asked
	}
	var start, ttl time.Duration
	if err := e.again(ctx, one(func(ctx context.Context) error {
		start = boottime.Now()
		ttls, err := e.keepAlive(ctx, id)
		if err == nil {
			ttl = ttls[0]
		}
		return err
	})); err != nil {
		return err
	}
	if ttl <= 0 {
		e.sessionEnded(id)
		return errLeaseGone
	}
	e.mu.Lock()
	if e.session.id == id {
		e.session.asked, e.session.until = start, max(e.session.until, start+ttl)
	}
	e.mu.Unlock()
	return enough(start, ttl, until)
}

// sessionEnded: etcd does not know that lease any more.
func (e *Engine) sessionEnded(id clientv3.LeaseID) {
	e.mu.Lock()
	mine := e.session.id == id
	if mine {
		e.session = session{}
	}
	e.mu.Unlock()
	if mine {
		e.mail.PostAll() // every claim of it is gone: the core asks, and is told
	}
}

func (e *Engine) proven(id clientv3.LeaseID, until time.Duration) bool {
	s := e.current()
	return s.id == id && until <= s.until
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

// proveEach is prove for all leases that some claims hang on. Detached claims have
// one each: those share requests.
func (e *Engine) proveEach(ctx context.Context, claims []*asked, until time.Duration) map[clientv3.LeaseID]error {
	proof := map[clientv3.LeaseID]error{}
	session := e.current().id
	var own []clientv3.LeaseID
	for _, a := range claims {
		if _, asked := proof[a.lease]; asked || a.lease == 0 {
			continue
		}
		proof[a.lease] = nil
		if a.lease != session {
			own = append(own, a.lease)
			continue
		}
		proof[session] = e.prove(ctx, session, until)
	}
	for some := range slices.Chunk(own, maxOps) {
		var start time.Duration
		var ttls []time.Duration
		err := e.again(ctx, one(func(ctx context.Context) (err error) {
			start = boottime.Now()
			ttls, err = e.keepAlive(ctx, some...)
			return err
		}))
		for i, id := range some {
			if proof[id] = err; err == nil {
				proof[id] = enough(start, ttls[i], until)
			}
		}
	}
	return proof
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

// keep keeps the session alive, beat by beat. It is the only thing here that
// happens by the clock: a session that nobody kept would end under claims that
// nobody renews. Without a session it does nothing.
func (e *Engine) keep(renewalInterval time.Duration) {
	ticker := time.NewTicker(renewalInterval)
	defer ticker.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-ticker.C:
		}
		s := e.current()
		if s.id == 0 || boottime.Now()-s.asked < renewalInterval/2 {
			continue
		}
		// An answer that takes longer is of no use to the next Join. Whatever the
		// error is, the next beat asks again; a lease that has ended is told by
		// prove.
		ctx, cancel := context.WithTimeout(e.life, 2*renewalInterval)
		_ = e.prove(ctx, s.id, s.until+1)
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
