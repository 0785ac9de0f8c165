package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/zookeeper/internal/nodes"
	"leasehold/lab/servers"
)

// The races that hand-written recipes lose.

func TestThePredecessorGoesBetweenListingAndWatching(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	received := b.notifications(t)
	// The watch on what stands before it comes after the list. Strike just before
	// that is sent.
	var struck atomic.Bool
	b.wire.before(func(op int32) {
		if op == opGetData && b.watchesSomebody() && !struck.Swap(true) {
			a.leave1(t, first)
		}
	})
	got := b.join(t, exclusive("x"))
	if !struck.Load() {
		t.Fatal("the test struck at nothing")
	}
	if got.State != engine.Held {
		receive(t, received, heldNotification(got.ID))
	}
}

// watchesSomebody: a claim of this client is about to watch another node.
func (c client) watchesSomebody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.m.Claims {
		if len(cl.Ahead) > 0 {
			return true
		}
	}
	return false
}

func TestAWaiterInTheMiddleVanishes(t *testing.T) {
	t.Parallel()
	s := beside(t)
	a, b, c := open(t, on(s)), open(t, dying(s)), open(t, on(s))
	first := a.hold(t, exclusive("middle"))
	second := b.wait(t, exclusive("middle"))
	received := c.notifications(t)
	third := c.wait(t, exclusive("middle"))
	b.wire.kill() // its session ends while the first holds
	eventually(t, "the dead waiter stays", func() bool {
		l, err := a.Queue(within(t), "middle")
		return err == nil && len(l.Claims) == 2
	})
	// A recipe that takes the end of its predecessor for its turn holds now.
	if got := c.renew(t, third); got.State != engine.Waiting {
		t.Fatalf("a waiter before it vanished, and it is %v while another holds", got.State)
	}
	if got := a.renew(t, first); got.State != engine.Held {
		t.Fatal(got)
	}
	a.leave1(t, first)
	receive(t, received, heldNotification(third.ID))
	_ = second
}

// A claim that waits when Revoke reads the queue may hold by the time that its node is to go, and
// its client believes that until it hears otherwise. Such a node is marked, not removed.
func TestAWaiterHoldsByTheTimeItIsRevoked(t *testing.T) {
	s := zooKeeper(t)
	a, b, by := open(t, on(s)), open(t, on(s)), open(t, on(s))
	received := b.notifications(t)
	type kind struct{ permits, limit int32 }
	writes, reads, permit := kind{engine.Max, engine.Max}, kind{1, engine.Max}, kind{1, 2}
	for _, c := range []struct {
		name    string
		line    []kind
		revoked int
		leaves  int // by then
		holds   bool
	}{
		{"a writer holds", []kind{writes, writes, writes}, 1, 0, true},
		{"a reader holds", []kind{writes, reads, writes}, 1, 0, true},
		{"a permit is free", []kind{permit, permit, permit, permit}, 2, 0, true},
		{"a writer waits for another", []kind{writes, writes, writes, writes}, 2, 0, false},
		{"another waiter leaves", []kind{permit, permit, permit, permit}, 3, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var line []engine.Claim
			for i, k := range c.line {
				who := a
				if i == c.revoked {
					who = b
				}
				line = append(line, who.join(t, want(c.name, k.permits, k.limit)))
			}
			revoked := line[c.revoked]
			struck := false
			by.wire.before(func(op int32) {
				if struck || op != opDelete && op != opMulti {
					return
				}
				struck = true
				a.leave1(t, line[c.leaves])
				if c.holds {
					receive(t, received, heldNotification(revoked.ID))
				}
			})
			err := by.Revoke(within(t), c.name, revoked.Ticket, false)
			if by.wire.before(nil); err != nil || !struck {
				t.Fatalf("%v, struck: %v", err, struck)
			}
			l, err := by.Queue(within(t), c.name)
			if err != nil {
				t.Fatal(err)
			}
			stands := false
			for _, got := range l.Claims {
				switch {
				case got.Ticket == revoked.Ticket:
					stands = true
					if got.State != engine.Held || !got.Revoked {
						t.Errorf("it is %v, revoked: %v", got.State, got.Revoked)
					}
				case got.Ticket > revoked.Ticket && got.State != engine.Waiting:
					t.Errorf("who is behind it is %v", got.State)
				}
			}
			if stands != c.holds {
				t.Errorf("its node stands: %v", stands)
			}
		})
	}
}

func TestTryLockAndATimeOutLeaveNoNode(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	r := exclusive("x")
	r.NoWait = true
	if got := b.join(t, r); got.State != engine.Gone {
		t.Fatalf("refused, and %v", got.State)
	}
	// A caller that gives up while its Join is on the way, at every moment of it.
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		r := exclusive("x")
		_, _ = b.Join(ctx, b.lasts(r))
		cancel()
		b.leave1(t, engine.Claim{Name: "x", ID: r.ID})
	}
	if l, err := a.Queue(within(t), "x"); err != nil || len(l.Claims) != 1 || l.Claims[0].Ticket != first.Ticket {
		t.Errorf("the queue is %+v, %v", l.Claims, err)
	}
}

// The node of a NoWait whose caller gave up waits, and listens to nobody. When the Join is
// repeated it is looked at once more: the name may have become free.
func TestARepeatedTryLockLooksAgain(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	b.leave1(t, b.hold(t, exclusive("y"))) // its session has a node: the next multi makes the claim
	ctx, giveUp := context.WithCancel(within(t))
	gaveUp := make(chan struct{})
	b.wire.before(func(op int32) {
		if op == opMulti {
			giveUp()
			<-gaveUp
		}
	})
	r := b.lasts(exclusive("x"))
	r.NoWait = true
	got, err := b.Join(ctx, r)
	b.wire.before(nil)
	close(gaveUp)
	if err == nil {
		t.Fatalf("nobody waited for it, and it is %v", got.State)
	}
	eventually(t, "the node of who gave up is not known to wait", func() bool {
		got, err := b.Renew(within(t), []engine.Renewal{{Name: "x", ID: r.ID, Want: b.usual}})
		return err == nil && got[0].State == engine.Waiting
	})
	a.leave1(t, first)
	if got := b.join(t, r); got.State != engine.Held {
		t.Errorf("the name is free, and who asks once more is %v", got.State)
	}
}

// Who does not wait asks for no watch of the holder: the client library keeps each
// until it fires, and a holder may stay for days while somebody tries every second.
func TestTryLockAsksForNoWatchOfTheHolder(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	a.hold(t, exclusive("x"))
	b.wire.requests()
	const tries = 10
	for range tries {
		r := exclusive("x")
		r.NoWait = true
		b.join(t, r)
	}
	if n := b.wire.requests()[opGetData]; n != 0 {
		t.Errorf("%d nodes were read in %d tries", n, tries)
	}
}

// A create that nobody waits for any more may succeed long after its caller went.
func TestALateSuccessIsMinded(t *testing.T) {
	s := zooKeeper(t)
	p := servers.ProxyTo(t, s.Addr)
	o := on(s)
	o.Servers = []string{p.Addr}
	a, b := open(t, o), open(t, on(s))
	a.leave1(t, a.hold(t, exclusive("x"))) // the name's node is there
	p.BlackHole(true)
	ctx, cancel := context.WithCancel(t.Context())
	r := exclusive("x")
	a.wire.requests()
	got, err := a.givesUp(t, ctx, cancel, r, "nothing is created", func() bool { return a.wire.requests()[opMulti] > 0 })
	if err == nil {
		t.Fatalf("through a black hole: %v", got)
	}
	if got, err := a.Leave(ctx, []engine.Claim{{Name: "x", ID: r.ID}}); err == nil {
		t.Fatalf("left through a black hole: %v", got)
	}
	p.BlackHole(false)
	if got := a.leave1(t, engine.Claim{Name: "x", ID: r.ID}); got.State != engine.Gone {
		t.Errorf("given up and left, it is %v", got.State)
	}
	b.hold(t, exclusive("x"))
}

func TestTwoWatchesFireForOneEvent(t *testing.T) {
	s := zooKeeper(t)
	a, b, c := open(t, on(s)), open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	received := b.notifications(t)
	// Two claims of one client that watch the same node, and a holder's watch on
	// the queue: one deletion fires all, and each must be told once, of its own.
	one, two := b.wait(t, reader("x")), b.wait(t, reader("x"))
	behind := c.wait(t, exclusive("x"))
	a.leave1(t, first)
	held := map[engine.ID]int{}
	for len(held) < 2 {
		held[receive(t, received, func(n engine.Claim) bool { return n.State == engine.Held }).ID]++
	}
	if b.renew(t, one).State != engine.Held || b.renew(t, two).State != engine.Held {
		t.Error("two readers were told that they hold, and do not")
	}
	b.leave1(t, one)
	b.leave1(t, two)
	if got := c.renew(t, behind); got.State != engine.Held {
		t.Errorf("everybody left, and the last is %v", got.State)
	}
	for len(received) > 0 {
		held[(<-received).ID]++
	}
	if held[one.ID] != 1 || held[two.ID] != 1 {
		t.Errorf("told %d and %d times", held[one.ID], held[two.ID])
	}
}

// Who waits for permits watches the one before it, and that one does not go when it
// holds: it must say so.
func TestWhoWaitsForPermitsIsWokenWhenTheOneBeforeHolds(t *testing.T) {
	s := zooKeeper(t)
	clients := make([]client, 6)
	received := make([]<-chan engine.Claim, 6)
	line := make([]engine.Claim, 6)
	for i := range clients {
		clients[i] = open(t, on(s))
		received[i] = clients[i].notifications(t)
		line[i] = clients[i].join(t, want("x", 1, 2))
	}
	clients[0].leave1(t, line[0])
	receive(t, received[2], heldNotification(line[2].ID))
	clients[1].leave1(t, line[1]) // not the node that the fourth watched
	receive(t, received[3], heldNotification(line[3].ID))
	clients[3].leave1(t, line[3]) // the later of two holders
	receive(t, received[4], heldNotification(line[4].ID))
	clients[2].leave1(t, line[2])
	receive(t, received[5], heldNotification(line[5].ID))
}

// expire keeps a client from its servers until they have ended its session.
func (c client) expire(t *testing.T) {
	t.Helper()
	before, _ := c.link.current()
	c.wire.kill()
	eventually(t, "the session does not end", func() bool {
		sessions, err := servers.AskZooKeeper(c.link.hosts.servers[0], "dump") // those that it keeps, and their nodes
		return err == nil && strings.Contains(sessions, "ephemeral nodes dump") && !strings.Contains(sessions, fmt.Sprintf("0x%x", uint64(before.id)))
	})
	c.wire.revive()
}

func TestTheSessionEndsBetweenCreateAndList(t *testing.T) {
	t.Parallel()
	s := beside(t)
	a, b := open(t, dying(s)), open(t, on(s))
	a.leave1(t, a.hold(t, exclusive("between")))
	var struck atomic.Bool
	a.wire.before(func(op int32) {
		if op == opList && !struck.Swap(true) {
			a.expire(t)
		}
	})
	r := exclusive("between")
	got, err := a.Join(within(t), a.lasts(r))
	if !struck.Load() {
		t.Fatal("the test struck at nothing")
	}
	if err == nil {
		t.Fatalf("the session that made the node has ended, and Join says %v", got.State)
	}
	b.hold(t, exclusive("between"))
	// The same ID again makes the claim anew, behind whoever holds now.
	if got := a.join(t, r); got.State != engine.Waiting {
		t.Errorf("joined again it is %v", got.State)
	}
}

// The client library may send in a new session what was asked for in the one before,
// and a node that is found may be left of that. Whose it is only the node says.
func TestANodeOfAnotherSessionIsNotHeld(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	conn := peer(t, s)
	a.leave1(t, a.hold(t, exclusive("x")))
	r := exclusive("x")
	path, err := conn.Create("/x/"+a.layout.Prefix(uuidOf(r.ID), engine.Max, engine.Max), nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	a.wire.before(func(op int32) {
		if op == opMulti {
			a.wire.before(nil)
			a.wire.cut() // unsure whether it was made, it finds the other
		}
	})
	if got, err := a.Join(within(t), a.lasts(r)); err == nil {
		t.Errorf("%s is of another session, and the claim is %v", path, got.State)
	}
	if got := a.renew(t, engine.Claim{Name: "x", ID: r.ID}); got.State != engine.Gone {
		t.Errorf("the claim is %v", got.State)
	}
}

func TestAfterItsSessionAClientWorksAgain(t *testing.T) {
	t.Parallel()
	s := beside(t)
	a, b := open(t, dying(s)), open(t, on(s))
	received := a.notifications(t)
	held, first := a.hold(t, exclusive("after-held")), b.hold(t, exclusive("after-waits"))
	waits := a.wait(t, exclusive("after-waits"))
	a.expire(t)
	lost := map[engine.ID]bool{}
	for len(lost) < 2 {
		c := receive(t, received, func(n engine.Claim) bool { return n.State == engine.Gone })
		if c.Revoked {
			t.Error("the end of a session is no eviction")
		}
		lost[c.ID] = true
	}
	for _, c := range []engine.Claim{held, waits} {
		if got := a.renew(t, c); got.State != engine.Gone {
			t.Errorf("a new session inherited a claim: %v", got.State)
		}
	}
	again := a.wait(t, exclusive("after-waits"))
	b.leave1(t, first)
	receive(t, received, heldNotification(again.ID))
	if got := a.hold(t, exclusive("after-held")); got.Ticket <= held.Ticket {
		t.Errorf("ticket %d after %d", got.Ticket, held.Ticket)
	}
}

func TestACreateWhoseAnswerWasLostFindsItsOwnNode(t *testing.T) {
	s := zooKeeper(t)
	for _, layout := range []string{"curator", "readwrite", "nodes"} {
		t.Run(layout, func(t *testing.T) {
			o := on(s)
			o.Layout = layout
			a := open(t, o)
			name := "lost-" + layout
			a.leave1(t, a.hold(t, exclusive(name)))
			lost := a.wire.loseMulti()
			a.hold(t, exclusive(name))
			if !lost() {
				t.Fatal("no answer was lost")
			}
			if l, err := a.Queue(within(t), name); err != nil || len(l.Claims) != 1 {
				t.Errorf("%+v, %v", l.Claims, err)
			}
		})
	}
}

func TestADeleteWhoseAnswerWasLostIsMadeAgain(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	c := a.hold(t, exclusive("x"))
	var cut atomic.Bool
	a.wire.before(func(op int32) {
		if op == opDelete && !cut.Swap(true) {
			a.wire.cut() // it never arrives
		}
	})
	a.leave1(t, c)
	if !cut.Load() {
		t.Fatal("the test struck at nothing")
	}
	b.hold(t, exclusive("x"))
}

// The delete that is made again finds no node, and cannot say whether the claim was held to
// its end: that is no loss.
func TestADeleteThatArrivedUnansweredSaysNothing(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	c := a.hold(t, exclusive("x"))
	lost := a.wire.loseReply()
	if got, err := a.Leave(within(t), []engine.Claim{c}); err == nil {
		t.Errorf("an answer was lost, and the claim is said to have been %v", got)
	}
	if !lost() {
		t.Fatal("no answer was lost")
	}
	b.hold(t, exclusive("x"))
}

// A name of the plain layout comes again: the servers remove the node of a name that nobody
// uses, and in the next one the numbers begin anew. A removal that is repeated, or was asked
// for in an earlier session, leaves the node that has the name by then.
func TestARemovalLeavesTheNodeOfAnotherThatHasItsName(t *testing.T) {
	s := zooKeeper(t)
	o := on(s)
	o.Layout = "nodes"
	a, b, conn := open(t, o), open(t, o), peer(t, s)
	now, _ := a.link.current()
	earlier := grant{now.id - 1, now.timeout} // a session that has ended
	// at has f called before the nth request from now on.
	at := func(nth int32, f func()) {
		var n atomic.Int32
		a.wire.before(func(int32) {
			if n.Add(1) == nth {
				f()
			}
		})
	}
	// leave may fail: an answer that was lost, or a claim that ended with its session.
	leave := func(t *testing.T, held engine.Claim) { _, _ = a.Leave(within(t), []engine.Claim{held}) }
	for name, remove := range map[string]func(t *testing.T, held engine.Claim, c *claim, another func()){
		"made again": func(t *testing.T, held engine.Claim, _ *claim, another func()) {
			lost := a.wire.loseReply()
			at(2, another)
			leave(t, held)
			if !lost() {
				t.Error("no answer was lost")
			}
		},
		"asked for before its session ended": func(_ *testing.T, _ engine.Claim, c *claim, another func()) {
			another()
			a.steps([]*step{{c.Queue, &zk.DeleteRequest{Path: c.Key, Version: -1}, earlier.id}})
		},
		"sent after its session ended": func(t *testing.T, held engine.Claim, c *claim, another func()) {
			a.mu.Lock()
			c.Session = earlier.id
			a.mu.Unlock()
			a.link.set(func() { a.link.session = earlier })
			at(1, func() {
				another()
				a.link.set(func() { a.link.session = now })
			})
			leave(t, held)
		},
		"of what is replaced": func(t *testing.T, held engine.Claim, c *claim, another func()) {
			a.mu.Lock()
			c.Session = earlier.id
			a.mu.Unlock()
			a.wire.before(func(op int32) {
				if op == opMulti {
					a.wire.before(nil)
					another()
				}
			})
			r := exclusive(held.Name)
			r.Replaces = held.ID
			a.wait(t, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			held := a.hold(t, exclusive(name))
			a.mu.Lock()
			c := a.m.Claims[held.ID]
			a.mu.Unlock()
			var theirs engine.Claim
			remove(t, held, c, func() {
				_ = conn.Delete(c.Key, -1) // unless that is done
				if err := conn.Delete(c.Queue, -1); err != nil {
					t.Error(err)
				}
				theirs = b.hold(t, exclusive(name))
			})
			a.wire.before(nil)
			b.mu.Lock()
			if other := b.m.Claims[theirs.ID]; other == nil || other.Key != c.Key {
				t.Errorf("another has no node of the same name: %+v", other)
			}
			b.mu.Unlock()
			if got := b.renew(t, theirs); got.State != engine.Held {
				t.Errorf("the claim of another is %v", got.State)
			}
		})
	}
}

func TestAnOperatorsDeleteIsNoticed(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	op := peer(t, s)
	for _, watching := range []bool{true, false} {
		name := fmt.Sprint("x", watching)
		c, other := a.hold(t, exclusive(name)), a.hold(t, exclusive(name+"-other"))
		if !watching {
			// As if the watches had been lost, once they are set: the check alone must see it.
			if _, err := a.Renew(within(t), []engine.Renewal{{Name: other.Name, ID: other.ID, Want: a.usual}, {Name: c.Name, ID: c.ID, Want: a.usual}}); err != nil {
				t.Fatal(err)
			}
			a.mu.Lock()
			a.deafen()
			a.mu.Unlock()
		}
		children, _, err := op.Children("/" + name)
		if err != nil || len(children) != 1 {
			t.Fatal(children, err)
		}
		if err := op.Delete("/"+name+"/"+children[0], -1); err != nil {
			t.Fatal(err)
		}
		got, err := a.Renew(within(t), []engine.Renewal{{Name: other.Name, ID: other.ID, Want: a.usual}, {Name: c.Name, ID: c.ID, Want: a.usual}})
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		for _, g := range got {
			if want := map[engine.ID]engine.State{c.ID: engine.Gone, other.ID: engine.Held}[g.ID]; g.State != want {
				t.Errorf("watching %v: %s is %v, want %v", watching, g.Name, g.State, want)
			}
		}
	}
}

func TestSequenceNumbersNearTheirEndAreRefused(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	conn := peer(t, s)
	a.leave1(t, a.hold(t, exclusive("x")))
	// No test makes two thousand million nodes. A claim whose own node has such a
	// number is made to look at one.
	if _, err := conn.Create("/x/_c_0d1b7c0a-41a5-4c5b-8f0e-6f8e1f0f6a11-lock-2147483000", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	c := &claim{Claim: session.Claim{Request: exclusive("x"), Queue: "/x", Key: "/x/" + "_c_0d1b7c0a-41a5-4c5b-8f0e-6f8e1f0f6a11-lock-2147483000", Phase: session.Placed}}
	err := a.readQueue(within(t), c)
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "begin anew") {
		t.Errorf("%v", err)
	}
}

func TestForeignNodesAreRefusedAndStay(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	conn := peer(t, s)
	acl := zk.WorldACL(zk.PermAll)
	for _, path := range []string{"/x", "/x/config"} {
		if _, err := conn.Create(path, []byte("theirs"), 0, acl); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Join(within(t), a.lasts(exclusive("x"))); !errors.Is(err, engine.ErrRefused) || !errors.Is(err, nodes.ErrForeign) || !strings.Contains(err.Error(), "config") {
		t.Errorf("Join: %v", err)
	}
	if _, err := a.Queue(within(t), "x"); !errors.Is(err, nodes.ErrForeign) {
		t.Errorf("Queue: %v", err)
	}
	if err := a.Revoke(within(t), "x", 1, true); !errors.Is(err, nodes.ErrForeign) {
		t.Errorf("Revoke: %v", err)
	}
	for l, err := range a.Queues(within(t), "") {
		t.Errorf("Queues: %+v, %v", l, err)
	}
	if children, _, err := conn.Children("/x"); err != nil || len(children) != 1 {
		t.Errorf("what is left: %v, %v", children, err)
	}
}

// One that is made while others hold does not end their claims.
func TestAForeignNodeDoesNotDisturbWhoIsInQueue(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	conn := peer(t, s)
	first, received := a.hold(t, exclusive("x")), b.notifications(t)
	second := b.wait(t, exclusive("x"))
	if _, err := conn.Create("/x/config", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if got := a.renew(t, first); got.State != engine.Held {
		t.Error(got)
	}
	a.leave1(t, first)
	receive(t, received, heldNotification(second.ID))
}

func TestContainersGoByThemselves(t *testing.T) {
	t.Parallel()
	s := sweeping(t)
	a := open(t, on(s))
	conn := peer(t, s)
	for i := range 20 {
		a.leave1(t, a.hold(t, exclusive(fmt.Sprint("gone", i))))
	}
	kept := a.hold(t, exclusive("kept"))
	eventually(t, "the nodes of names that nobody uses stay", func() bool {
		children, _, err := conn.Children("/")
		return err == nil && len(children) == 3 // kept, that of the session, and the server's own
	})
	// The node of a name may go just before a claim is made in it.
	for range 50 {
		c := a.hold(t, exclusive("again"))
		a.leave1(t, c)
		_ = conn.Delete("/again", -1)
	}
	if got := a.renew(t, kept); got.State != engine.Held {
		t.Error(got)
	}
}
