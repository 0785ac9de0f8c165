package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
)

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := errors.Join(e.table.capacity(), e.fit()); err != nil {
		return engine.Claim{}, err
	}
	start := boottime.Now()
	c, err := e.expect(ctx, &r)
	if err != nil {
		return engine.Claim{}, e.explain(err)
	}
	j, err := e.join(ctx, c, &r)
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			e.forgo(ctx, c)
		}
		return engine.Claim{}, e.explain(err)
	}
	if j.queue.elsewhere(c) {
		e.forgo(ctx, c)
		return e.asItStands(ctx, &r)
	}
	if j.refused {
		e.forgo(ctx, c)
		e.begun(func(ctx context.Context) { e.notifyHolders(ctx, j.queue) })
		return engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit, State: engine.Gone}, nil
	}
	// Only now is the hold believed: the key was seen, and lives as long as the
	// lease does.
	if p := &j.queue.places[j.at]; !p.revoked {
		if c.Detached {
			err = e.proveOwn(ctx, p.lease, start+c.ttl)
		} else {
			err = e.proveJoined(ctx, c, p, start+c.ttl)
		}
		if err != nil {
			return engine.Claim{}, e.explain(err)
		}
	}
	if r.Replaces != (engine.ID{}) {
		e.dropBefore(r.Replaces, j.queue.places[j.at].ticket)
	}
	got := e.table.report(c, e.table.promote(c, j.queue))
	if got.State == engine.Gone && !got.Revoked && e.table.get(r.ID) != c {
		// Its session ended while it joined, and with that what was known of it. It joined
		// by the next session: nobody would ever leave that.
		if e.deleteOld(ctx, c, &mvccpb.KeyValue{CreateRevision: int64(j.queue.places[j.at].ticket)}) != nil {
			e.past.alarm()
		}
		return engine.Claim{}, errEndedMeanwhile
	}
	e.receiveEarly(c)
	if got.State == engine.Waiting {
		e.attend(c, j.queue, j.at, j.revision)
	}
	return got, nil
}

// asItStands is a claim that another client made: another server of a service, or the same one
// before it was started anew. Its owner asks here now.
func (e *Engine) asItStands(ctx context.Context, r *engine.Request) (engine.Claim, error) {
	got, err := e.Renew(ctx, []engine.Renewal{{Name: r.Name, ID: r.ID, Want: r.WaitTTL}})
	switch {
	case err != nil:
		return engine.Claim{}, err
	case got[0].State == engine.Gone && !got[0].Revoked: // since it was seen
		return engine.Claim{}, errEndedMeanwhile
	}
	return got[0], nil
}

// joined is what a Join found.
type joined struct {
	queue    line
	at       int // where the claim is in it
	revision int64
	refused  bool // NoWait, and there was no room
}

// maxTries bounds how often one Join is sent because of what others did in between.
const maxTries = 100

// join takes a place in one transaction. It is sent again where that can tell
// more: with a new session if the old one was gone, and for a claim that does not
// wait if the queue was not as it looked.
func (e *Engine) join(ctx context.Context, c *claim, r *engine.Request) (joined, error) {
	seen := int64(0) // NoWait: there was room at this revision
	// A detached claim may stand already by another client's key, and replace what another client
	// made. A vacant queue has neither, so that is tried first. Any other is read by that.
	vacant := e.table.occupy(c) && r.Replaces == (engine.ID{}) || r.Detached
	var old *place // which it replaces, as it was read
	for range maxTries {
		lease, err := e.leaseOf(ctx, c)
		if err != nil {
			return joined{}, err
		}
		s := e.current(c.class.Session)
		crowded := !r.NoWait && e.table.crowded(c)
		var op clientv3.Op
		if vacant {
			op = e.occupying(c, lease, s.void)
		} else {
			op = e.joining(c, r, old, lease, s.void, seen, crowded)
		}
		var answer answer
		err = e.propose(ctx, func(ctx context.Context, patience time.Duration) error {
			if answer = e.commit(ctx, &call{name: r.Name, op: op, patience: patience}); indeterminate(answer.err) {
				e.table.indeterminate(c)
			}
			return answer.err
		})
		if leaseGone(err) {
			e.ended(c, lease)
			continue // once a session's TTL at most
		}
		if err != nil {
			return joined{}, err
		}
		switch {
		case answer.succeeded && vacant:
			return e.joined(ctx, c, answer, e.only(c, lease, answer.revision), false)
		case answer.succeeded:
			return e.joined(ctx, c, answer, line{}, crowded)
		case vacant && !r.Detached:
			vacant = false
			continue
		}
		now := e.refusal(c, answer)
		j := joined{queue: now.queue, at: now.queue.at(c), revision: answer.revision}
		other := slices.IndexFunc(now.queue.places, func(p place) bool { return p.limit != r.Limit })
		switch {
		case now.queue.elsewhere(c):
			return j, nil
		case now.mine && now.queue.places[j.at].ticket > c.Floor: // by a call whose answer was lost
			return j, nil
		case now.key != nil: // of a claim that had the slot, or of this one, before a backup was put back
			if err := e.deleteOld(ctx, c, now.key); err != nil {
				return joined{}, err
			}
		case other >= 0: // behind claims that agree, it is another program's
			return joined{}, &engine.LimitError{Name: r.Name, Have: now.queue.places[other].limit, Want: r.Limit}
		case r.NoWait && !now.queue.fits(r.Permits, r.Limit):
			j.refused = true
			return j, nil
		case vacant:
			vacant = false
			if i := now.queue.with(r.Replaces); i >= 0 && r.Replaces != (engine.ID{}) {
				old = &now.queue.places[i]
			}
		case now.void == s.void && !(r.NoWait && now.newest > seen):
			// Only keys that are no claims stand against it.
			return joined{}, engine.Refuse("below %q are keys of another program: delete them: %q", e.keys.line(r.Name), now.foreign)
		}
		seen = j.revision
		e.voidAt(c.class.Session, s.id, now.void)
	}
	return joined{}, fmt.Errorf("etcdlock: the queue or the session changed with each of %d tries", maxTries)
}

// joined is what a Join found that was carried out.
func (e *Engine) joined(ctx context.Context, c *claim, a answer, vacant line, crowded bool) (j joined, err error) {
	ticket := uint64(a.revision)
	if ticket <= c.Floor {
		if err := e.deleteOld(ctx, c, &mvccpb.KeyValue{CreateRevision: a.revision}); err != nil {
			return joined{}, err
		}
		return joined{}, e.past.fallen(ticket, c.Floor)
	}
	switch {
	case len(vacant.places) > 0:
		j.queue, j.revision = vacant, a.revision
	case crowded:
		j.queue, j.revision, err = e.lookAt(ctx, reading{c.Name, true}, ticket)
	default:
		j.queue, j.revision = e.keys.read(a.last()), a.revision
	}
	if err != nil {
		return joined{}, err
	}
	if j.at = j.queue.find(c.key, ticket); j.at < 0 {
		return joined{}, errEndedMeanwhile
	}
	if j.at >= engine.MaxQueue {
		if err := e.deleteOld(ctx, c, &mvccpb.KeyValue{CreateRevision: a.revision}); err != nil {
			return joined{}, err
		}
		return joined{}, engine.Refuse("the queue has %d claims already, the most: let fewer callers wait for one name", engine.MaxQueue)
	}
	if i := slices.IndexFunc(j.queue.places[:j.at], func(p place) bool { return p.lease == 0 }); i >= 0 {
		if err := e.deleteOld(ctx, c, &mvccpb.KeyValue{CreateRevision: a.revision}); err != nil {
			return joined{}, err
		}
		return joined{}, engine.Refuse("the key %q has no lease, so it never ends: it is not leasehold's; delete it", j.queue.places[i].key)
	}
	e.table.joined(c, len(j.queue.places) == 1 && !j.queue.more)
	return j, nil
}

// deleteOld deletes what stands under a claim's key, in that life.
func (e *Engine) deleteOld(ctx context.Context, c *claim, kv *mvccpb.KeyValue) error {
	return e.propose(ctx, one(func(ctx context.Context) error {
		_, err := e.do(ctx, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(c.key), "=", kv.CreateRevision)},
			[]clientv3.Op{clientv3.OpDelete(c.key)}, nil))
		return err
	}))
}

// joining is the transaction of one Join. In a crowd the queue is read after it, for
// many together.
func (e *Engine) joining(c *claim, r *engine.Request, old *place, lease clientv3.LeaseID, void, seen int64, crowded bool) clientv3.Op {
	then := e.take(c, r, old, lease)
	if !crowded {
		then = append(then, e.beside(c))
	}
	return clientv3.OpTxn(e.may(c, r, void, seen), then, e.against(c))
}

// against reads what may stand against a Join: see refusal.
func (e *Engine) against(c *claim) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(c.class.Session.voidKey), clientv3.OpGet(c.key), e.beside(c)}
}

// beside reads the queue of a claim, with IDs where another client may have made it.
func (e *Engine) beside(c *claim) clientv3.Op {
	if c.Detached {
		return e.inspect(c.Name)
	}
	return e.look(c.Name, 0)
}

// occupying is the transaction of a Join that expects to find nobody. Then it asks nothing
// else, and its answer is known. A detached one that finds somebody learns whom.
func (e *Engine) occupying(c *claim, lease clientv3.LeaseID, void int64) clientv3.Op {
	var others []clientv3.Op
	if c.Detached {
		others = e.against(c)
	}
	return clientv3.OpTxn([]clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(e.keys.line(c.Name)), "=", 0).WithPrefix(),
		clientv3.Compare(clientv3.ModRevision(c.class.Session.voidKey), "=", void),
	}, e.puts(c, lease), others)
}

// only is the queue that such a Join has made.
func (e *Engine) only(c *claim, lease clientv3.LeaseID, revision int64) line {
	return inOrder([]place{{key: c.key, name: c.Name, limit: c.Limit, permits: c.Permits, client: e.name, ticket: uint64(revision), lease: lease}})
}

// refusal is what stood against a Join.
type refusal struct {
	void    int64            // the revision of the void key
	key     *mvccpb.KeyValue // what has the claim's key, or nil
	mine    bool             // which is this claim
	queue   line
	newest  int64  // the create revision of the last key that came to the queue
	foreign []byte // one of its keys that is no claim's, if there is one
}

func (e *Engine) refusal(c *claim, a answer) (r refusal) {
	if kvs := a.responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		r.void = kvs[0].ModRevision
	}
	if kvs := a.responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		r.key, r.mine = kvs[0], string(kvs[0].Value) == c.value
	}
	r.queue = e.keys.read(a.last())
	for _, kv := range a.last().Kvs {
		r.newest = max(r.newest, kv.CreateRevision)
		if _, ok := e.keys.parse(kv); !ok {
			r.foreign = kv.Key
		}
	}
	return r
}

// may are the conditions under which a claim joins: it is not there yet, this Join
// is not void, and nobody is in the queue with another limit. One that does not wait also needs its
// room: nobody has come since the queue was seen to have it. Who has left since
// only made more.
func (e *Engine) may(c *claim, r *engine.Request, void, seen int64) []clientv3.Cmp {
	all, same := e.keys.line(r.Name), e.keys.limited(r.Name, r.Limit)
	absent := func(from, to string) clientv3.Cmp {
		return clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(to)
	}
	may := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0),
		clientv3.Compare(clientv3.ModRevision(c.class.Session.voidKey), "=", void),
		absent(all, same),
	}
	if r.Limit < engine.Max { // there is no higher one
		may = append(may, absent(clientv3.GetPrefixRangeEnd(same), clientv3.GetPrefixRangeEnd(all)))
	}
	if r.NoWait {
		may = append(may, clientv3.Compare(clientv3.CreateRevision(same), "<", seen+1).WithPrefix())
	}
	return may
}

// take makes the claim, in the place of the one it replaces: old, if that was read.
func (e *Engine) take(c *claim, r *engine.Request, old *place, lease clientv3.LeaseID) (ops []clientv3.Op) {
	// Should this be late, that claim may have left, and another may have its key.
	leave := func(there clientv3.Cmp, client, key string) {
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{there}, []clientv3.Op{
			clientv3.OpDelete(key), clientv3.OpDelete(e.keys.notification(client, key)),
		}, nil))
	}
	if old != nil {
		leave(stands(old.node()), old.client, old.key)
	} else if r.Replaces != (engine.ID{}) {
		// One of this client's: if it was ever sent, its key is known.
		if known := e.table.get(r.Replaces); known != nil {
			leave(known.mine(), e.name, known.key)
		}
	}
	return append(ops, e.puts(c, lease)...)
}

// puts makes the key of a claim. A notification may be left of who had the key before.
func (e *Engine) puts(c *claim, lease clientv3.LeaseID) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(e.keys.notification(e.name, c.key)), clientv3.OpPut(c.key, c.value, clientv3.WithLease(lease))}
}

// look reads a queue up to a ticket; 0 is all of it.
func (e *Engine) look(name string, upTo uint64) clientv3.Op {
	return clientv3.OpGet(e.keys.line(name), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(int64(upTo)))
}

// inspect reads a queue with IDs and owners.
func (e *Engine) inspect(name string) clientv3.Op {
	return clientv3.OpGet(e.keys.line(name), clientv3.WithPrefix())
}

// expect records a claim that is about to join, and the class of its TTL.
func (e *Engine) expect(ctx context.Context, r *engine.Request) (*claim, error) {
	ttl := max(cmp.Or(r.TTL, r.WaitTTL), e.least)
	class, err := e.use(ttl)
	for errors.Is(err, engine.ErrRefused) {
		if err := e.forgetDetached(ctx, func(*claim) bool { return true }); err != nil {
			return nil, err
		}
		// A claim that is given up keeps its class until it is known to have gone, and one
		// that is joining may be refused yet. Only those that stand refuse a TTL. Counted
		// first: a class that is given back after that is found by use.
		all := e.table.classes() >= session.MaxClasses
		if class, err = e.use(ttl); all || err == nil {
			break
		}
		if ended := e.pause(ctx, tidySoon); ended != nil {
			return nil, fmt.Errorf("etcdlock: claims with %d TTLs are on their way into the queue or out of it, and each TTL needs a session of its own; ask again: %w", session.MaxClasses, ended)
		}
	}
	if err != nil {
		return nil, err
	}
	c, made := e.table.expect(e.keys, e.name, r, ttl, class, e.past.highWater())
	if !made {
		e.unuse(class) // it has its own
	}
	return c, nil
}

// leaseOf is the lease to make a claim with: the session's, or its own.
func (e *Engine) leaseOf(ctx context.Context, c *claim) (clientv3.LeaseID, error) {
	// A detached claim has a lease of its own, and a session for as long as it is known:
	// its void key.
	id, err := e.begin(ctx, c.class.Session)
	if err != nil {
		return 0, err
	}
	if c.Detached {
		e.table.mu.Lock()
		own := c.lease()
		e.table.mu.Unlock()
		if own != 0 {
			return own, nil // of an earlier attempt
		}
		if id, _, err = e.grant(ctx, seconds(c.ttl), nil); err != nil {
			return 0, err
		}
	}
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	if c.Detached || c.Phase == session.Making {
		// Else its key hangs on a lease already, which may be a former one of its session: it
		// would never be attached to this one.
		c.Session = int64(id)
	}
	return id, nil
}

// forgo forgets a claim that did not join, and the lease that was made for it.
func (e *Engine) forgo(ctx context.Context, c *claim) {
	e.drop(c.ID)
	if c.Detached && c.Session != 0 {
		e.discard(ctx, c.lease())
	}
}

// ended: etcd does not know the lease any more that the claim was to live by.
func (e *Engine) ended(c *claim, lease clientv3.LeaseID) {
	if !c.Detached {
		e.sessionEnded(lease)
		return
	}
	e.table.mu.Lock()
	c.Session = 0
	e.table.mu.Unlock()
}
