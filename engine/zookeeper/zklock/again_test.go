package zklock

import (
	"context"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

// What is done once more after a call that failed, and what is not believed without.

// Half of what the session lasts now, which another server may have shortened.
func TestHalfOfAShorterSessionIsTrusted(t *testing.T) {
	e := &Engine{ttl: 10 * time.Second, link: &link{session: session{1, 8 * time.Second}}}
	if got := e.reportLocked(&claim{phase: holding}); got.TTL != 4*time.Second {
		t.Errorf("%v of a session of 8s are trusted", got.TTL)
	}
	e.link.session.timeout = time.Minute
	if got := e.reportLocked(&claim{phase: holding}); got.TTL != e.ttl {
		t.Errorf("%v are trusted, and %v declared", got.TTL, e.ttl)
	}
}

// A creation may be on its way while its client is connected to another server, which
// does not know of it yet. The commit before the list waits for it.
func TestALostCreationIsLookedForBehindACommit(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	a.leave1(t, a.hold(t, exclusive("x"))) // the nodes that it needs are there
	a.wire.requests()
	var mu sync.Mutex
	var sent []int32
	lost := a.wire.loseReply()
	a.wire.before(func(op int32) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, op)
	})
	a.hold(t, exclusive("x"))
	mu.Lock()
	defer mu.Unlock()
	if !lost() {
		t.Fatal("no answer was lost")
	}
	commits, behind := 0, false // lists behind the second commit
	for _, op := range sent {
		if op == opMulti {
			commits++
		}
		behind = behind || op == opList && commits == 2
	}
	if commits != 2 || !behind {
		t.Errorf("a creation without an answer was looked for by %v", sent)
	}
}

// A look that failed is owed: the watch that asked for it has fired, and tells of nothing
// more.
func TestALookThatFailedIsRepeated(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	waits := b.wait(t, exclusive("x")) // without a Watch: Renew alone looks
	a.leave1(t, first)
	eventually(t, "it does not hear", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.claims[waits.ID].stale
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error)
	b.wire.before(func(op int32) {
		if op == opList {
			b.wire.before(nil)
			cancel()
			if err := <-returned; err == nil {
				t.Error("nobody answered, and Renew had no error")
			}
		}
	})
	go func() {
		_, err := b.Renew(ctx, []engine.Renewal{{Name: "x", ID: waits.ID, Want: b.ttl}})
		returned <- err
	}()
	<-ctx.Done()
	if got := b.renew(t, waits); got.State != engine.Held {
		t.Errorf("it is first in the queue, and %v", got.State)
	}
}

// The node may be gone since the first Join, and nothing heard of it.
func TestARepeatedJoinIsProven(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	r := exclusive("x")
	held := a.hold(t, r)
	a.promote(t, held)
	a.mu.Lock()
	path := a.claims[r.ID].path()
	clear(a.own) // as if its watches had been lost
	clear(a.lines)
	a.mu.Unlock()
	if err := peer(t, s).Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Join(within(t), r); err == nil && got.State != engine.Gone {
		t.Errorf("its node was removed, and it is %v", got.State)
	}
}

// promote waits until a holder listens for all that it will.
func (c client) promote(t *testing.T, held engine.Claim) {
	t.Helper()
	eventually(t, "it never promotes", func() bool {
		got := c.renew(t, held)
		c.mu.Lock()
		defer c.mu.Unlock()
		cl := c.claims[held.ID]
		return got.State == engine.Held && cl.lasts && !cl.stale && !cl.unread
	})
}
