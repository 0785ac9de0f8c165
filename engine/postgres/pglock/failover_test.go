package pglock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// pair is a primary, its replica, and the wire between them.
type pair struct {
	primary, replica *servers.PostgresServer
	wire             *servers.Proxy
	url              string // of both
}

func replicated(t *testing.T, parameters ...string) *pair {
	t.Helper()
	p := &pair{primary: server(t)}
	p.wire = servers.ProxyTo(t, p.primary.Addr)
	open(t, p.primary.URL("", "")+strings.Join(parameters, "")).Close() // makes the tables
	p.replica = p.primary.Replica(t, p.wire)
	p.url = strings.Replace(p.primary.URL("", ""), p.primary.Addr, p.primary.Addr+","+p.replica.Addr, 1) + "&target_session_attrs=read-write&connect_timeout=20"
	until(t, "the replica does not follow", func() bool {
		n, err := p.primary.Query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
		return err == nil && n == "1"
	})
	return p
}

// fail ends the primary and makes the replica one.
func (p *pair) fail(t *testing.T) {
	t.Helper()
	if err := p.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.replica.Promote(); err != nil {
		t.Fatal(err)
	}
}

// A connection to a server that only reads is not used again, and none is kept for renewals: the
// next one may lead to the primary. One address that moves is what ?failover declares.
func TestAConnectionThatLedToAReplicaIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	front := servers.ProxyTo(t, p.primary.Addr)
	e := open(t, strings.Replace(p.primary.URL("", ""), p.primary.Addr, front.Addr, 1)+"&failover")
	front.Retarget(p.replica.Addr)
	front.Reset()
	again(t, func() error { // until a call has met the replica
		if _, err := e.Join(within(t), exclusive("a")); code(err) != "25006" {
			return fmt.Errorf("a Join at the replica: %w", err)
		}
		return nil
	})
	front.Retarget(p.primary.Addr) // what leads to the replica still does
	for range 3 {
		if leave(t, e, join(t, e, exclusive("a"))) != engine.Held {
			t.Error("it did not hold")
		}
	}
}

// again makes a call until it is answered.
func again(t *testing.T, call func() error) {
	t.Helper()
	var err error
	until(t, "never answered", func() bool {
		if err = call(); err != nil {
			t.Log(err)
			time.Sleep(20 * time.Millisecond)
		}
		return err == nil
	})
}

// A replica that every commit waits for misses nothing that was answered: who held
// holds, who waited waits and is told by the new server.
func TestFailoverToASynchronousReplicaLosesNothing(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	admin := connect(t, p.primary.URL("", ""))
	do(t, admin, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	do(t, admin, `SELECT pg_reload_conf()`)
	until(t, "the replica is not synchronous", func() bool {
		n, err := p.primary.Query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
		return err == nil && n == "1"
	})
	e, other := open(t, p.url), open(t, p.url)
	received := watch(t, other)
	long := exclusive("a")
	long.WaitTTL = time.Minute
	first := join(t, e, long)
	long.ID = engine.NewID()
	second := join(t, other, long)

	// Locks are taken all the time while the primary dies.
	var mu sync.Mutex
	var answered []engine.Claim
	var all sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				r := exclusive(fmt.Sprint(i, " ", n))
				r.WaitTTL = time.Minute
				c, err := e.Join(ctx, r)
				if err != nil {
					return
				}
				mu.Lock()
				answered = append(answered, c)
				mu.Unlock()
			}
		})
	}
	until(t, "nothing is answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(answered) >= 50
	})
	for len(received) > 0 {
		<-received
	}
	p.fail(t)
	all.Wait()
	highest := uint64(0)
	for _, c := range append(answered, first) {
		again(t, func() error {
			cs, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
			if err == nil && (cs[0].State != engine.Held || cs[0].Ticket != c.Ticket) {
				t.Errorf("%q was held with ticket %d, and is %v with %d", c.Name, c.Ticket, cs[0].State, cs[0].Ticket)
			}
			return err
		})
		highest = max(highest, c.Ticket)
	}
	expect(t, received, func(c engine.Claim) bool { return c.Name == "" }) // it listens at the new server
	if leave(t, e, first) != engine.Held {
		t.Error("the first did not hold")
	}
	expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
	if c := join(t, e, exclusive(first.Name)); c.Ticket <= highest {
		t.Errorf("ticket %d follows %d", c.Ticket, highest)
	}
}

// A replica that missed a grant grants again: that is what an engine on several hosts
// declares. The former holder learns it at its next renewal, and the tokens rise with
// the servers' clocks.
func TestFailoverToAReplicaThatMissedAGrantIsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	e, other := open(t, p.url), open(t, p.url)
	if g := e.Guarantees(); g.Failover != engine.FailoverMayDouble || g.Fencing != engine.FencingMemory {
		t.Errorf("two hosts declare %v and %v", g.Failover, g.Fencing)
	}
	p.wire.BlackHole(true)
	long := exclusive("a")
	long.WaitTTL = time.Minute
	first := join(t, e, long)
	p.wire.Close() // what was sent never arrives
	p.fail(t)
	var second engine.Claim
	again(t, func() (err error) {
		second, err = other.Join(within(t), exclusive("a"))
		return err
	})
	if second.State != engine.Held || second.Ticket <= first.Ticket {
		t.Errorf("after ticket %d the new server says %v with ticket %d", first.Ticket, second.State, second.Ticket)
	}
	again(t, func() error {
		cs, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: first.ID, Want: time.Minute}})
		if err == nil && cs[0].State != engine.Gone {
			t.Errorf("the former holder is %v", cs[0].State)
		}
		return err
	})
}
