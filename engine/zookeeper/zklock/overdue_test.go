package zklock

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

// What comes late, twice, or after a connection that broke.

func TestAReconnectIsNotifiedOf(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	received := a.notifications(t)
	a.wire.cut()
	receive(t, received, func(c engine.Claim) bool { return c.ID == engine.ID{} })
}

func TestNothingIsAskedOfABrokenConnection(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	a.wire.kill()
	eventually(t, "it believes that a server serves it", func() bool {
		_, up := a.link.current()
		return !up
	})
}

// Each call that ends without an answer says of each server why it does not serve.
func TestACallWithoutAServerSaysWhy(t *testing.T) {
	a := open(t, on(zooKeeper(t)))
	held := a.hold(t, exclusive("x"))
	a.wire.kill()
	eventually(t, "no server is tried", func() bool { return strings.Contains(a.link.away(io.EOF).Error(), "dead") })
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := exclusive("y")
	_, joined := a.givesUp(t, ended, cancel, r, "no claim is made", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.m.Claims[r.ID] != nil
	})
	_, renewed := a.Renew(ended, []engine.Renewal{{Name: r.Name, ID: r.ID, Want: a.usual}})
	_, listed := a.list(ended, a.parent("x"))
	_, left := a.Leave(ended, []engine.Claim{held})
	for call, err := range map[string]error{"Join": joined, "Renew": renewed, "list": listed, "Leave": left} {
		if err == nil || !strings.Contains(err.Error(), "this client is dead") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// A server that lags refuses who has seen more, for a moment: that ends no session.
func TestAServerThatClosesTheConnectionHasNotGoneBack(t *testing.T) {
	s := zooKeeper(t)
	var refusing atomic.Bool // the next connection
	var refused atomic.Int64
	o := on(s)
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil && refusing.CompareAndSwap(true, false) {
			refused.Add(1)
			return shut{c}, nil
		}
		return c, err
	}
	a := open(t, o)
	held := a.hold(t, exclusive("x"))
	before, _ := a.link.current()
	refusing.Store(true)
	a.wire.cut()
	if got := a.answer(t, held); got.State != engine.Held {
		t.Errorf("it is %v", got.State)
	}
	if after, _ := a.link.current(); after.id != before.id || refused.Load() != 1 {
		t.Errorf("session %x became %x, after %d refusals", before.id, after.id, refused.Load())
	}
	if err := a.Check(within(t)); err != nil {
		t.Error(err)
	}
}

// shut is a connection on which nothing is answered.
type shut struct{ net.Conn }

func (shut) Read([]byte) (int, error) { return 0, io.EOF }

// What is replaced is forgotten with the answer of the step that removed it, or when what
// replaced it is found without one.
func TestWhatIsReplacedIsForgottenWithoutAnAnswer(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	first := a.hold(t, exclusive("x"))
	r := exclusive("x")
	r.Replaces = first.ID
	lost := a.wire.loseMulti()
	got, err := a.Join(within(t), a.lasts(r))
	if err != nil || got.State != engine.Held {
		t.Fatal(got, err)
	}
	if !lost() {
		t.Fatal("no answer was lost")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m.Claims[first.ID] != nil {
		t.Error("what was replaced is kept")
	}
}

// Who waits may hold unseen: Leave says so, whatever was heard.
func TestLeaveSaysHowItFoundAWaiter(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	waits := b.wait(t, exclusive("x"))
	b.mu.Lock()
	b.deafen() // as if its watch had been lost
	b.mu.Unlock()
	a.leave1(t, first)
	if got := b.leave1(t, waits); got.State != engine.Held {
		t.Errorf("it was first in the queue, and Leave found it %v", got.State)
	}
}

func TestAHolderIsContendedNoLongerThanSomebodyWaits(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	waits := b.wait(t, exclusive("x"))
	eventually(t, "it is not contended", func() bool { return a.renew(t, first).Contended })
	b.leave1(t, waits)
	if a.renew(t, first).Contended {
		t.Error("nobody waits any more, and it is contended")
	}
}

// listening is a session without a connection: asks listens, and what becomes of the watch
// meanwhile is up to the test, as when it fires.
func listening(t *testing.T) (asks func(want bool, meanwhile func()), fires func()) {
	e := &claimant{Engine: &Engine{}, watches: map[watch]*standing{}}
	w := watch{"/x", true}
	asks = func(want bool, meanwhile func()) {
		t.Helper()
		err := e.listen(w, func(watch bool) error {
			if watch != want {
				t.Errorf("it asks with a watch: %v, want %v", watch, want)
			}
			meanwhile()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	fires = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.changed(w.path, session.Listed)
	}
	return asks, fires
}

// A watch that another asked for counts when it was answered: it may come to stand
// after what was asked for beside it.
func TestAWatchThatIsOnItsWayIsNotReliedOn(t *testing.T) {
	asks, fires := listening(t)
	asks(true, func() { asks(true, func() {}) })
	asks(false, func() {})
	fires()
	asks(true, fires) // before it is answered
	asks(true, func() {})
}

// Where a watch fires before its answer is noted, another may have begun to ask for the next:
// the answer says nothing of that one.
func TestAnAnswerDoesNotCountForTheNextWatch(t *testing.T) {
	asks, fires := listening(t)
	begun, goOn, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	asks(true, func() {
		fires()
		go func() {
			defer close(over)
			asks(true, func() { close(begun); <-goOn }) // its request is not sent yet
		}()
		<-begun
	})
	asks(true, func() {})
	close(goOn)
	<-over
}

func TestCuratorsMarkIsRead(t *testing.T) {
	if !read([]byte(revoke)).Revoked || read([]byte(revoke+" ")).Revoked {
		t.Error("a revocation is not read, or another word for one")
	}
}

// Who comes to hold writes to its node for whoever waits behind it. Where somebody else
// wrote first, that was heard instead.
func TestAWakeUpAfterSomebodyElseWrote(t *testing.T) {
	s := zooKeeper(t)
	a, b, c := open(t, on(s)), open(t, on(s)), open(t, on(s))
	conn := peer(t, s)
	first, second := a.hold(t, want("x", 1, 2)), a.hold(t, want("x", 1, 2))
	received := c.notifications(t)
	middle := b.wait(t, want("x", 1, 2))
	last := c.wait(t, want("x", 1, 2))
	path := b.m.Claims[middle.ID].Key
	var struck atomic.Bool
	b.wire.before(func(op int32) {
		if op == opSetData && !struck.Swap(true) {
			if _, err := conn.Set(path, []byte("a tool"), -1); err != nil {
				t.Error(err)
			}
		}
	})
	a.leave1(t, first)
	eventually(t, "it does not come to hold", func() bool { return b.renew(t, middle).State == engine.Held })
	if !struck.Load() {
		t.Fatal("the test struck at nothing")
	}
	a.leave1(t, second)
	receive(t, received, heldNotification(last.ID))
}

// What was let into the queue is not refused later, for what others put there.
func TestARepeatedJoinIsNotRefusedForWhatCameLater(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	r := exclusive("x")
	held := a.hold(t, r)
	a.promote(t, held)
	if _, err := conn.Create("/x/config", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Join(within(t), a.lasts(r)); errors.Is(err, engine.ErrRefused) || got.State != engine.Held {
		t.Errorf("%v, %v", got.State, err)
	}
}
