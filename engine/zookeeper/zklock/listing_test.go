package zklock

import (
	"path"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
)

// Whoever asks while a list is under way has the next, all the same one.
func TestOneListIsUnderWayForAName(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	a.leave1(t, a.hold(t, exclusive("x")))
	a.wire.requests()
	asked, goOn := make(chan struct{}), make(chan struct{})
	a.wire.before(func(op int32) {
		if op == opList {
			a.wire.before(nil)
			close(asked)
			<-goOn
		}
	})
	first := a.listing("/x")
	<-asked
	later := make([]*listing, 100)
	for i := range later {
		later[i] = a.listing("/x")
	}
	held := exclusive("x") // whose node is made meanwhile
	made, err := conn.Create("/x/"+a.layout.Prefix(uuidOf(held.ID), held.Permits, held.Limit), nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	<-first.done
	for _, l := range later {
		<-l.done
		if l == first || l != later[0] || l.err != nil || l.there.line.Find(path.Base(made)) != 0 {
			t.Fatalf("%+v, %v", l.there.line, l.err)
		}
	}
	if n := a.wire.requests()[opList]; n != 2 {
		t.Errorf("%d lists", n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.listings) != 0 {
		t.Errorf("what is kept: %v", a.listings)
	}
}

// A crowd on one name is in the queue in requests that grow with its number, and so does what
// is read; who holds another name goes on renewing.
func TestTenThousandWaitForOneName(t *testing.T) {
	many := engine.MaxQueue - 1 // and the holder
	if testing.Short() {
		many = 500
	}
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	first := a.hold(t, exclusive("x"))
	other := b.hold(t, exclusive("other"))
	b.wire.requests()
	crowd := make([]engine.Claim, many)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			c, err := b.Join(within(t), b.lasts(exclusive("x")))
			if crowd[i] = c; err != nil || c.State != engine.Waiting {
				t.Errorf("%v, %v", c.State, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for joining := true; joining; {
		if got := b.renew(t, other); got.State != engine.Held {
			t.Fatalf("%v beside a crowd", got.State)
		}
		select {
		case <-done:
			joining = false
		default:
		}
	}
	sent := b.wire.requests()
	if sent[opGetData] > 2*many || sent[opList] > many/2 {
		t.Errorf("%d waiters: %v", many, sent)
	}
	t.Logf("%d waiters: %v", many, sent)
	l, err := a.Queue(within(t), "x")
	if err != nil || len(l.Claims) != many+1 {
		t.Fatal(len(l.Claims), err)
	}
	received := b.notifications(t)
	a.leave1(t, first)
	receive(t, received, func(c engine.Claim) bool { return c.State == engine.Held })
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.m.Claims {
		if c.first != nil {
			t.Fatal("a waiter keeps the whole queue")
		}
	}
}
