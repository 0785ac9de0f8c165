package etcdlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/internal/boottime"
)

// A leader may stand still until another is elected, and longer than an etcd lease lasts.
// When it goes on it does not know yet of the other one, which has kept the lease alive, and
// has it ended: etcd carries that out (etcd issue 15247). On 3.6.16, 3 of 12
// stopped leaders did so, 0.1 to 0.5 s after they went on.
//
// A leader cannot end a lease that was granted when it was the leader no more. So each
// session remembers in which term its lease was granted. Once the client sees a later term, it
// trusts the lease for no longer than the former leader itself promised, and attaches its
// claims to a new one. They keep their keys, and so their places:
//
//	term 4    grants A, keeps it alive ---- stands still ------------- goes on, ends A
//	term 5                                  elected, keeps A alive
//	client    trusts A until the last answer of term 4 + TTL | claims are attached to B, of term 5
//
// The header of an answer has the term of the last entry that its member carried out. That
// of a read which etcd serves in order is at least the term of the leader that served it. So
// a keep-alive was answered by a leader of no later term than a read AFTER it shows, and a
// lease was granted in no earlier term than a read BEFORE it shows. (The keep-alive's own
// header is made before the leader is asked.)
//
// A detached claim has a lease of its own, which other clients keep alive. It stays there.

// term is that of the leader, or a later one.
func (e *Engine) term(ctx context.Context) (term uint64, err error) {
	err = e.again(ctx, one(func(ctx context.Context) error {
		r, err := e.do(ctx, clientv3.OpGet(e.keys.void(e.name), clientv3.WithCountOnly()))
		if err == nil {
			term = r.Get().Header.RaftTerm
		}
		return err
	}))
	return term, err
}

// writable is whether a lease lives, by writing a key that hangs on it: all members agree on
// that. A keep-alive may ask a former leader that has just gone on. It does not know yet that
// it leads no more, nor any lease of a later term, and says of each that it has ended.
func (e *Engine) writable(ctx context.Context, id clientv3.LeaseID) (bool, error) {
	err := e.again(ctx, one(func(ctx context.Context) error {
		_, err := e.do(ctx, clientv3.OpPut(e.keys.void(e.name)+"/lives", "", clientv3.WithLease(id)))
		return err
	}))
	if leaseGone(err) {
		return false, nil
	}
	return err == nil, err
}

// The leases of sessions have identifiers of the client's own: all begin with the same bits.
// So a key that was written again shows why: to attach it to such a lease, or to mark it (see
// Revoke), which attaches it to one whose identifier etcd made.
const (
	sessionBits = 0x4c4841
	randomBits  = 40
)

func newSessionID() clientv3.LeaseID {
	return clientv3.LeaseID(sessionBits<<randomBits | rand.Int64N(1<<randomBits))
}

func isSession(id clientv3.LeaseID) bool { return id>>randomBits == sessionBits }

// errReplaced: the session has another lease by now.
var errReplaced = errors.New("the etcd lease was replaced: ask again")

// errEndedMeanwhile: a claim took its place, and is not there any more.
var errEndedMeanwhile = errors.New("the claim ended while it joined: ask again")

// replace has a session go on with a new lease, and its claims with it. With s.proving held.
func (e *Engine) replace(ctx context.Context, s *lifeline, from clientv3.LeaseID, term uint64) error {
	start := boottime.Now()
	made, err := hedge(ctx, e.bounds.hedge, func(ctx context.Context) (granted, error) { // one that comes too late ends by itself
		id, ttl, err := e.grant(ctx, s.seconds, newSessionID)
		return granted{id, ttl}, err
	})
	if err != nil {
		return err
	}
	id, ttl := made.id, made.ttl
	e.mu.Lock()
	if s.id != from { // it has ended
		e.mu.Unlock()
		return errLeaseGone
	}
	s.id, s.asked, s.until, s.term = id, start, start+ttl, term
	e.mu.Unlock()
	// From here on claims join by the new lease. One that joined by the old one is attached
	// to the new one when its Join is answered.
	return e.attachAll(ctx, s)
}

// granted is an etcd lease, and how long it lasts.
type granted struct {
	id  clientv3.LeaseID
	ttl time.Duration
}

// attachment is a claim that is to be attached to another lease.
type attachment struct {
	*claim
	ticket  uint64
	written int64 // the last revision of its key
	done    bool
}

// strays is whether a claim of a session hangs on another lease than that one. A claim that is
// given up is deleted, whatever it is attached to.
func (c *claim) strays(s *lifeline, from clientv3.LeaseID) bool {
	return c.class.Session == s && !c.Detached && !c.givenUp && c.Phase.Wanted() && c.lease() != from
}

// stranded is whether claims of a session that has no lease hang on a former one.
func (t *table) stranded(s *lifeline) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.m.Claims {
		if c.strays(s, 0) {
			return true
		}
	}
	return false
}

// attachAll attaches those claims of a session to its lease that are attached to a former one.
// With s.proving held.
func (e *Engine) attachAll(ctx context.Context, s *lifeline) error {
	now := e.current(s)
	if now.id == 0 {
		return nil
	}
	var all []*attachment
	t := &e.table
	t.mu.Lock()
	for _, c := range t.m.Claims {
		if c.strays(s, now.id) {
			all = append(all, &attachment{claim: c, ticket: c.Ticket, written: c.lastWritten()})
		}
	}
	t.mu.Unlock()
	return e.attach(ctx, s, now, all)
}

// attach attaches claims to the lease of their session: those whose keys nobody has written or
// deleted meanwhile. The others learn by their next renewal what became of them. An attempt
// whose answer was lost is found done by the next one.
func (e *Engine) attach(ctx context.Context, s *lifeline, now known, all []*attachment) error {
	for len(all) > 0 {
		n := min(len(all), atOnce)
		some := all[:n]
		all = all[n:]
		var ops []clientv3.Op
		for _, h := range some {
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(h.key), "=", int64(h.ticket)),
				clientv3.Compare(clientv3.ModRevision(h.key), "=", h.written),
			}, []clientv3.Op{
				clientv3.OpPut(h.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(now.id)),
			}, []clientv3.Op{clientv3.OpGet(h.key, clientv3.WithKeysOnly())}))
		}
		if now.void != 0 { // it would go with the former lease
			ops = append(ops, clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(s.voidKey, "", clientv3.WithLease(now.id))}, nil))
		}
		answers, err := hedge(ctx, e.bounds.hedge, func(ctx context.Context) (answers []answer, err error) {
			err = e.again(ctx, one(func(ctx context.Context) (err error) {
				answers, err = e.inOne(ctx, ops)
				return err
			}))
			return answers, err
		})
		if leaseGone(err) {
			e.sessionEnded(now.id)
			return errLeaseGone
		}
		if err != nil {
			return err
		}
		if now.void != 0 {
			e.voidAt(s, now.id, answers[n].revision)
			now.void = 0
		}
		for i, h := range some {
			a := &answers[i]
			if a.succeeded {
				e.table.attached(h, now.id, a.revision)
				continue
			}
			kvs := a.first().Kvs
			if len(kvs) == 0 || uint64(kvs[0].CreateRevision) != h.ticket {
				continue
			}
			switch lease := clientv3.LeaseID(kvs[0].Lease); {
			case lease == now.id:
				e.table.attached(h, lease, kvs[0].ModRevision)
			case isSession(lease): // by an attempt for an earlier term
				h.written = kvs[0].ModRevision
				all = append(all, h)
			}
		}
	}
	return nil
}

// attached: a claim is attached to that lease, and its key was written for that.
func (t *table) attached(h *attachment, lease clientv3.LeaseID, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.done = true
	if h.Ticket == h.ticket || h.Ticket == 0 { // else it has been made anew since
		h.Session, h.claim.written, h.claim.writtenIn = int64(lease), revision, h.ticket
	}
}

// lastWritten is the revision at which the claim's key was written if nobody has marked it:
// when it was made, or attached to another lease. With the table's mutex held.
func (c *claim) lastWritten() int64 {
	if c.writtenIn == c.Ticket {
		return max(c.written, int64(c.Ticket))
	}
	return int64(c.Ticket)
}

// proveJoined is prove for a claim that has just joined, and may have done so by a lease that
// was replaced meanwhile: then it is attached to the new one.
func (e *Engine) proveJoined(ctx context.Context, c *claim, p *place, until time.Duration) error {
	s := c.class.Session
	err := e.prove(ctx, s, p.lease, until)
	if !errors.Is(err, errReplaced) {
		return err
	}
	if err := s.proving.lock(ctx); err != nil {
		return err
	}
	now := e.current(s)
	if now.id == 0 { // a key without a lease would never end
		s.proving.unlock()
		return errEndedMeanwhile
	}
	h := &attachment{claim: c, ticket: p.ticket, written: p.written}
	err = e.attach(ctx, s, now, []*attachment{h})
	s.proving.unlock()
	switch {
	case err != nil:
		return err
	case !h.done:
		return errEndedMeanwhile
	}
	p.lease = now.id
	return e.prove(ctx, s, p.lease, until)
}
