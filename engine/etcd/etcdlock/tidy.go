package etcdlock

import (
	"context"
	"fmt"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

// What a client gave up may still be in the queue, or come there: a Leave was not
// answered for as long as anybody asked, or a Join was not answered, and a member
// that was stopped with it carries it out when it goes on, after the Leave. Other
// engines' claims end by their TTL then. Here they live by the lease of their client,
// and would be in everybody's way for as long as that lives.
//
// So such claims are kept in mind, and tidied up in one transaction: their keys are
// deleted, and one key of this session, the void key, is written. Every Join needs
// that key to be as its client knows it, so that all that were sent before are void
// from then on:
//
//	        Join (void key at 0) ----------- stopped --------------> refused
//	client                        Leave   void key at 57
//	        Join (void key at 0) -> held
//
// A Join that is refused for that alone learns the key's revision and is sent again.

// tidySoon is how long tidying waits for more, so that Joins are seldom sent again
// where many callers give up at once.
const tidySoon = 100 * time.Millisecond

// untidySoon is how long after what failed it is tried again.
const untidySoon = time.Second

// maxLeft bounds the claims that are kept in mind. There are more only where etcd
// does not answer; then nothing more is sent.
const maxLeft = engine.MaxBatch

// drop forgets a claim that is not in the queue any more, but for one of which a Join is
// still under way, for all that is known.
func (e *Engine) drop(id engine.ID) { e.dropBefore(id, math.MaxUint64) }

// dropBefore is drop of what joined before that ticket. A claim that got the ticket has replaced
// it. When the Join of that claim is repeated, a later claim with the same ID still stands.
func (e *Engine) dropBefore(id engine.ID, ticket uint64) {
	t := &e.table
	t.mu.Lock()
	if c := t.m.Claims[id]; c != nil && c.Ticket < ticket {
		t.m.Left(c)
		c.unattend()
	}
	t.mu.Unlock()
	e.untidy()
}

// abandon is for claims whose Leave failed.
func (e *Engine) abandon(cs []engine.Claim) {
	t := &e.table
	t.mu.Lock()
	for i := range cs {
		if c := t.m.Claims[cs[i].ID]; c != nil {
			t.m.Abandon(c)
			c.unattend()
		}
	}
	t.mu.Unlock()
	e.untidy()
}

// untidy has what is left tidied up, if that is not under way.
func (e *Engine) untidy() {
	t := &e.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m.Indeterminate > 0 && !t.tidying {
		t.tidying = e.begun(e.tidy)
	}
}

// tidy goes on until nothing is left.
func (e *Engine) tidy(life context.Context) {
	for wait := tidySoon; ; {
		select {
		case <-life.Done():
			return
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(life, shared)
		err := e.tidyUp(ctx)
		cancel()
		if wait = tidySoon; err != nil {
			wait = untidySoon
		}
		t := &e.table
		t.mu.Lock()
		if t.m.Indeterminate == 0 {
			t.tidying = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
}

// tidyUp tidies up what fits in one transaction, of one session.
func (e *Engine) tidyUp(ctx context.Context) error {
	class, left := e.table.abandoned(atOnce)
	if class == nil {
		return nil
	}
	s := class.Session
	if id := e.current(s).id; id != 0 {
		ops := []clientv3.Op{clientv3.OpPut(s.voidKey, "", clientv3.WithLease(id))}
		for _, c := range left {
			// Should this be late itself, another claim may have the key.
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{c.mine()}, []clientv3.Op{
				clientv3.OpDelete(c.key), clientv3.OpDelete(e.keys.notification(e.name, c.key)),
			}, nil))
		}
		err := e.propose(ctx, one(func(ctx context.Context) error {
			r, err := e.do(ctx, clientv3.OpTxn(nil, ops, nil))
			if err == nil {
				e.voidAt(s, id, r.Txn().Header.Revision)
			}
			return err
		}))
		switch {
		case leaseGone(err):
			e.sessionEnded(id)
		case err != nil:
			return err
		}
	}
	// Without a session there is nothing that they could live by. Detached ones end
	// by their own leases.
	for _, c := range left {
		e.table.mu.Lock()
		e.table.m.Tidied(c)
		e.table.mu.Unlock()
	}
	return nil
}

// mine: the claim's key is there, and of no other claim.
func (c *claim) mine() clientv3.Cmp { return clientv3.Compare(clientv3.Value(c.key), "=", c.value) }

// voidAt: the void key of that session was seen to be written at a revision. What is
// older than was known is believed too, since a backup may have been put back: a Join
// that is sent with what was true once is refused, and told what is.
func (e *Engine) voidAt(s *lifeline, id clientv3.LeaseID, revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.id == id {
		s.void = revision
	}
}

// room is an error where too much is left to be tidied up.
func (t *table) capacity() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m.Indeterminate < maxLeft {
		return nil
	}
	return fmt.Errorf("etcdlock: etcd has not confirmed yet that %d claims are gone; ask again when it answers", t.m.Indeterminate)
}

// abandoned is some of what is to be tidied up, of one class.
func (t *table) abandoned(most int) (of *class, some []*claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.m.Claims {
		if c.Phase == session.Indeterminate && len(some) < most && (of == nil || of == c.class) {
			of, some = c.class, append(some, c)
		}
	}
	return of, some
}
