package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
)

// watchRequests counts the requests that ask for a watch of one path: the client
// library keeps each of them until it fires.
func (c client) watchRequests(path string) *atomic.Int64 {
	var n atomic.Int64
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	c.wire.sawPacket = func(op int32, packet []byte) {
		if op != opGetData && op != opList {
			return
		}
		end := 16 + int(binary.BigEndian.Uint32(packet[12:]))
		if string(packet[16:end]) == path && packet[end] == 1 {
			n.Add(1)
		}
	}
	return &n
}

// A holder may stay for days while somebody waits for it in vain every second.
func TestWaitingInVainAsksForOneWatchOfTheHolder(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	asked := b.watchRequests(a.m.Claims[first.ID].Key)
	b.wire.requests()
	for range 10 {
		b.leave1(t, b.wait(t, exclusive("x")))
	}
	if n, read := asked.Load(), b.wire.requests()[opGetData]; n != 1 || read != 1 {
		t.Errorf("%d watches of one holder, which was read %d times", n, read)
	}
	// And the one that is left serves who waits now.
	received := b.notifications(t)
	second := b.wait(t, exclusive("x"))
	a.leave1(t, first)
	receive(t, received, heldNotification(second.ID))
}

// Who waits may stay for days as well, and the holder looks at every renewal.
func TestAContendedHolderAsksForOneWatchOfItsQueue(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	received := a.notifications(t)
	asked := a.watchRequests("/x")
	first := a.hold(t, exclusive("x"))
	b.wait(t, exclusive("x"))
	receive(t, received, func(c engine.Claim) bool { return c.ID == first.ID && c.Contended })
	asked.Store(0) // what had fired
	for range 10 {
		if got := a.renew(t, first); !got.Contended {
			t.Fatalf("%+v", got)
		}
	}
	if n := asked.Load(); n > 1 {
		t.Errorf("%d watches of one queue", n)
	}
}

// Whoever comes and goes before a holder listens is told of when it does.
func TestWhoCameBeforeTheHolderListenedIsNotifiedOf(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	b.leave1(t, b.hold(t, exclusive("warm")))
	received := a.notifications(t)
	first := a.hold(t, exclusive("x"))
	r := exclusive("x")
	r.NoWait = true
	if got := b.join(t, r); got.State != engine.Gone {
		t.Fatal(got)
	}
	receive(t, received, func(c engine.Claim) bool { return c.ID == first.ID && c.Contended })
}

// deaf is a connection from which events of watches can be lost, as they are when the
// client library renews its watches too late after it has connected again.
type deaf struct {
	net.Conn
	read *io.PipeReader
}

func (d *deaf) Read(b []byte) (int, error) { return d.read.Read(b) }

func (d *deaf) Close() error { return errors.Join(d.read.Close(), d.Conn.Close()) }

func newDeaf(c net.Conn, lose *atomic.Bool, lost *atomic.Int64) net.Conn {
	r, w := io.Pipe()
	go func() {
		for first := true; ; first = false {
			packet := make([]byte, 4)
			if _, err := io.ReadFull(c, packet); err != nil {
				w.CloseWithError(err)
				return
			}
			packet = append(packet, make([]byte, binary.BigEndian.Uint32(packet))...)
			if _, err := io.ReadFull(c, packet[4:]); err != nil {
				w.CloseWithError(err)
				return
			}
			if !first && lose.Load() && int32(binary.BigEndian.Uint32(packet[4:])) == -1 {
				lost.Add(1)
				continue
			}
			if _, err := w.Write(packet); err != nil {
				return
			}
		}
	}()
	return &deaf{c, r}
}

// A watch that was lost is made up for when the client has connected again: the
// library asks the servers for what changed since the last answer it had, which may
// have come after the change.
func TestWhatWasNotHeardIsSeenAfterConnectingAgain(t *testing.T) {
	s := zooKeeper(t)
	var lose atomic.Bool
	var lost atomic.Int64
	o := on(s)
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newDeaf(c, &lose, &lost), nil
	}
	a, b := open(t, o), open(t, on(s))
	a.notifications(t)
	held := a.hold(t, exclusive("x"))
	eventually(t, "it does not listen", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.listens(watch{"/x", true}) && a.m.Claims[held.ID].Due == 0
	})
	holder := b.hold(t, want("units", 2, 3))
	waits := a.wait(t, want("units", 2, 3))
	lose.Store(true)
	b.wait(t, exclusive("x"))
	b.leave1(t, holder)
	eventually(t, "nothing was lost", func() bool { return lost.Load() >= 2 })
	a.leave1(t, a.hold(t, exclusive("another"))) // an answer from after the change
	lose.Store(false)
	a.wire.cut()
	eventually(t, "somebody waits, and the holder is never told", func() bool {
		got, err := a.Renew(within(t), []engine.Renewal{{Name: held.Name, ID: held.ID, Want: a.usual}})
		return err == nil && got[0].Contended
	})
	eventually(t, "it has its room, and does not hold", func() bool { return a.renew(t, waits).State == engine.Held })
}

// A watch fires once: what is to be heard after that needs another.
func TestANodeIsListenedToAgainAfterItChanged(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	conn := peer(t, s)
	received := a.notifications(t)
	held := a.hold(t, exclusive("x"))
	a.promoted(t)
	path := a.m.Claims[held.ID].Key
	data, _, err := conn.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // somebody's tool, which means nothing by it
		asked := a.watchRequests(path)
		if _, err := conn.Set(path, data, -1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it does not listen any more", func() bool { return asked.Load() == 1 })
		a.promoted(t)
	}
	if err := b.Revoke(within(t), "x", held.Ticket, false); err != nil {
		t.Fatal(err)
	}
	receive(t, received, func(c engine.Claim) bool { return c.ID == held.ID && c.Revoked })
}

// What claims leave behind in a client that lives for months.
func TestNothingIsKeptOfClaimsThatAreGone(t *testing.T) {
	s := sweeping(t) // the node of an empty queue is watched until it goes
	a, b := open(t, on(s)), open(t, on(s))
	b.notifications(t)
	for range 3 {
		first := a.hold(t, exclusive("x"))
		b.leave1(t, b.wait(t, exclusive("x")))
		one, two := b.wait(t, exclusive("x")), b.wait(t, reader("x"))
		b.renew(t, two)
		a.leave1(t, first)
		b.leave1(t, one)
		b.leave1(t, two)
		b.leave1(t, b.hold(t, want("units", 2, 3)))
	}
	for _, c := range []client{a, b} {
		eventually(t, "a client keeps what is gone", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			for w := range c.watches {
				if !w.children { // the queue of a name has one, which the next holder uses
					return false
				}
			}
			return len(c.m.Claims) == 0 && c.m.Listening() == 0 && len(c.looks) == 0
		})
	}
}

// Who may not read what stands before it is told so when it joins. What it did not
// stand behind then may come to be before it, and is not asked for again and again.
func TestANodeThatMayNotBeReadIsNotAskedForWithoutEnd(t *testing.T) {
	s := zooKeeper(t)
	b := open(t, on(s))
	conn := peer(t, s)
	b.leave1(t, b.hold(t, exclusive("x")))
	b.notifications(t)
	nodeOf := func(acl []zk.ACL) string {
		path, err := conn.Create("/x/"+b.layout.Prefix(uuidOf(engine.NewID()), engine.Max, engine.Max), nil, zk.FlagEphemeralSequential, acl)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	hidden, open := nodeOf(zk.WorldACL(zk.PermDelete)), nodeOf(zk.WorldACL(zk.PermAll))
	waits := b.wait(t, exclusive("x"))
	b.wire.requests()
	if err := conn.Delete(open, -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it never looks", func() bool {
		b.wire.mu.Lock()
		defer b.wire.mu.Unlock()
		return b.wire.sent[opGetData] > 0
	})
	b.wire.requests()
	var n int
	for range 50 {
		time.Sleep(10 * time.Millisecond)
		for _, m := range b.wire.requests() {
			n += m
		}
	}
	if n > 20 {
		t.Errorf("%d requests in half a second for a node that may not be read", n)
	}
	if err := conn.Delete(hidden, -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is alone in the queue and does not hold", func() bool { return b.renew(t, waits).State == engine.Held })
}

func TestARevocationBeforeTheHolderListenedIsNotifiedOf(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	received := a.notifications(t)
	for _, now := range []bool{false, true} {
		var struck atomic.Bool
		a.wire.before(func(op int32) { // the first thing that it asks for as a holder
			if op == opGetData && !struck.Swap(true) {
				l, err := b.Queue(context.Background(), "x")
				if err == nil {
					err = b.Revoke(context.Background(), "x", l.Claims[0].Ticket, now)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		held := a.join(t, exclusive("x"))
		if held.State == engine.Gone && held.Revoked && now {
			continue // the Join itself said so: it was answered after the node had gone
		}
		receive(t, received, func(c engine.Claim) bool { return c.ID == held.ID && c.State == engine.Gone && c.Revoked })
		a.leave1(t, held)
	}
}

// Each session has room for its own looks: one whose server is silent keeps none of another's
// waiting, and no more of its own under way than there is room for.
func TestASilentSessionDelaysNoLookOfAnother(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	received := a.notifications(t)
	held := b.hold(t, exclusive("x"))
	waits := a.wait(t, exclusive("x"))
	class, err := a.use(within(t), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer a.done(class)
	silent := class.Session
	a.mu.Lock()
	for range 2 * atOnce {
		c := newClaim(exclusive("y"), "/y", silent.ttl, class)
		c.looking <- struct{}{} // a look is under way, whose answer does not come
		silent.lookSoon(c)
	}
	if silent.lookers != atOnce {
		t.Errorf("%d goroutines look at %d claims, want %d", silent.lookers, 2*atOnce, atOnce)
	}
	a.mu.Unlock()
	b.leave1(t, held)
	receive(t, received, heldNotification(waits.ID))
}
