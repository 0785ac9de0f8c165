package zklock

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/lab/servers"
)

// What is replaced may be left at the same time: the delete of the one finds nothing,
// since the transaction of the other took the node, or the other way round.
func TestWhatIsReplacedIsLeftMeanwhile(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	for _, leaves := range []string{"after", "before"} {
		t.Run(leaves, func(t *testing.T) {
			first := a.hold(t, exclusive(leaves))
			old := a.m.Claims[first.ID]
			r := exclusive(leaves)
			r.Replaces = first.ID
			left := make(chan error, 1)
			leave := func() {
				_, err := a.Leave(context.Background(), []engine.Claim{first})
				left <- err
			}
			a.wire.before(func(op int32) {
				if op != opMulti {
					return
				}
				a.wire.before(nil)
				go leave()
				eventually(t, "it is not left", func() bool {
					a.mu.Lock()
					defer a.mu.Unlock()
					return old.Phase == session.Leaving
				})
				if leaves == "before" { // by somebody else, who was faster than this packet
					if err := b.link.conn.Delete(old.Key, -1); err != nil {
						t.Error(err)
					}
				}
			})
			if got := a.join(t, r); got.State != engine.Held {
				t.Errorf("%v", got.State)
			}
			if err := <-left; err != nil {
				t.Errorf("Leave: %v", err)
			}
			if l, err := b.Queue(within(t), leaves); err != nil || len(l.Claims) != 1 {
				t.Errorf("%+v, %v", l.Claims, err)
			}
		})
	}
}

// A claim may be left while its node is being read: nothing of the answer counts then.
func TestWhatIsLeftWhileItIsRead(t *testing.T) {
	s := zooKeeper(t)
	p := servers.ProxyTo(t, s.Addr)
	o := on(s)
	o.Servers = []string{p.Addr}
	a := open(t, o)
	a.notifications(t)
	held := a.hold(t, exclusive("x"))
	a.promoted(t)
	c := a.m.Claims[held.ID]
	a.mu.Lock()
	a.m.Owe(c, session.Own)
	a.lookSoon(c)
	asked := make(chan struct{})
	a.wire.before(func(op int32) {
		if op == opGetData {
			a.wire.before(nil)
			close(asked)
		}
	})
	p.Delay(20 * time.Millisecond)
	a.mu.Unlock()
	<-asked
	a.leave1(t, held)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m.Listening() != 0 || c.Phase != session.Gone {
		t.Errorf("it is kept: %v", c.Phase)
	}
}
