package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/servers"
)

// Another leader takes over with everything that was granted, and in order.
func TestTheLeaderIsKilled(t *testing.T) {
	t.Parallel() // it waits for an election
	// A member that is away for some seconds makes no election of its own.
	e := servers.ZooKeeperEnsemble(t, &servers.ZooKeeperOptions{Config: append([]string{"syncLimit=50"}, granting...)})
	o := on(e.Servers...)
	a, b := open(t, o), open(t, o)
	received := b.notifications(t)
	first := a.hold(t, exclusive("x"))
	second := b.wait(t, exclusive("x"))
	leader, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := a.answer(t, first); got.State != engine.Held || got.Ticket != first.Ticket {
		t.Fatalf("under the next leader the holder is %+v", got)
	}
	if got := b.answer(t, second); got.State != engine.Waiting {
		t.Fatalf("and who waits is %v", got.State)
	}
	a.leave1(t, first)
	receive(t, received, heldNotification(second.ID))
	third := a.wait(t, exclusive("x"))
	if third.Ticket <= second.Ticket {
		t.Errorf("ticket %d after %d", third.Ticket, second.Ticket)
	}
}

// answer renews until a server answers again.
func (c client) answer(t *testing.T, cl engine.Claim) (got engine.Claim) {
	t.Helper()
	eventually(t, "nobody answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		cs, err := c.Renew(ctx, []engine.Renewal{{Name: cl.Name, ID: cl.ID, Want: c.usual}})
		if err != nil || len(cs) != 1 {
			return false
		}
		got = cs[0]
		return true
	})
	return got
}

// What a program sees of the end of its session: its lease ends before anybody else
// can hold, and who waits goes on waiting, in the same call.
func TestAProgramOutlivesItsSession(t *testing.T) {
	t.Parallel() // it waits for sessions to end
	s := beside(t)
	a, b := open(t, dying(s)), open(t, on(s))
	ours, err := leasehold.New(a.Engine, &leasehold.Options{TTL: a.usual})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := leasehold.New(b.Engine, &leasehold.Options{TTL: b.usual})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	lease, err := ours.Lock(within(t), "outlived")
	if err != nil {
		t.Fatal(err)
	}
	other, err := theirs.Lock(within(t), "awaited")
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		l, err := ours.Lock(within(t), "awaited")
		if err == nil {
			err = l.Unlock()
		}
		waits <- err
	}()
	<-other.Contended()
	a.wire.kill()
	next, err := theirs.Lock(within(t), "outlived")
	if err != nil {
		t.Fatal(err)
	}
	if lease.Valid() || lease.Context().Err() == nil {
		t.Error("another holds, and the lease has not ended")
	}
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	a.wire.revive()
	if err := lease.Unlock(); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	if err := other.Unlock(); err != nil {
		t.Error(err)
	}
	if err := <-waits; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}
