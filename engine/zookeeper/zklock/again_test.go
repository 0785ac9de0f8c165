package zklock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

// What is done once more after a call that failed, and what is not believed without.

// Half of what the session lasts now, which another server may have shortened.
func TestHalfOfAShorterSessionIsTrusted(t *testing.T) {
	e := &claimant{link: &link{session: grant{1, 8 * time.Second}}}
	c := &claim{Claim: session.Claim{Phase: session.Held}, ttl: 10 * time.Second}
	if got := e.report(c); got.TTL != 4*time.Second {
		t.Errorf("%v of a session of 8s are trusted", got.TTL)
	}
	e.link.session.timeout = time.Minute
	if got := e.report(c); got.TTL != c.ttl {
		t.Errorf("%v are trusted, and %v asked for", got.TTL, c.ttl)
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
	lost := a.wire.loseMulti()
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
		return b.m.Claims[waits.ID].Due&session.Queue != 0
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
		_, err := b.Renew(ctx, []engine.Renewal{{Name: "x", ID: waits.ID, Want: b.usual}})
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
	path := a.m.Claims[r.ID].Key
	a.deafen() // as if its watches had been lost
	a.mu.Unlock()
	if err := peer(t, s).Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Join(within(t), a.lasts(r)); err == nil && got.State != engine.Gone {
		t.Errorf("its node was removed, and it is %v", got.State)
	}
}

// deafen has no event reach the claims that there are. The caller holds the mutex.
func (c client) deafen() {
	claims := c.m.Claims
	c.m.Start()
	c.m.Claims = claims
}

// promote waits until a holder listens for all that it will.
func (c client) promote(t *testing.T, held engine.Claim) {
	t.Helper()
	eventually(t, "it never promotes", func() bool {
		got := c.renew(t, held)
		c.mu.Lock()
		defer c.mu.Unlock()
		cl := c.m.Claims[held.ID]
		return got.State == engine.Held && cl.Phase == session.Settled && cl.Due == 0
	})
}

// What is refused leaves what it would have replaced.
func TestARefusedJoinReplacesNothing(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, want("x", 1, 2))
	b.hold(t, want("x", 1, 2))
	r := a.lasts(want("x", 1, 3))
	r.Replaces = first.ID
	if got, err := a.Join(within(t), r); !errors.Is(err, engine.ErrLimit) {
		t.Fatalf("%v, %v", got.State, err)
	}
	if got := a.renew(t, first); got.State != engine.Held {
		t.Errorf("what a refused Join would have replaced is %v", got.State)
	}
}
