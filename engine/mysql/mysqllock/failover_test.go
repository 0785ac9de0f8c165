package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/servers"
)

// pair is a primary, its replica, the wire between them, and the address by which
// clients reach the one that is the primary now.
type pair struct {
	primary, replica *servers.MariaDBServer
	wire, front      *servers.Proxy
	url              string // by the front, of a user who may not write where only reading is allowed
	marks            int    // see follows
}

func replicated(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: servers.MariaDBPrimary(t)}
	p.wire, p.front = servers.ProxyTo(t, p.primary.Addr), servers.ProxyTo(t, p.primary.Addr)
	if _, err := p.primary.Query("CREATE USER app@localhost; GRANT ALL ON test.* TO app@localhost"); err != nil {
		t.Fatal(err)
	}
	p.url = strings.Replace(p.primary.URL("app", ""), p.primary.Addr, p.front.Addr, 1) + "?failover"
	open(t, p.url).Close() // makes the tables
	p.replica = p.primary.Replica(t, p.wire.Addr)
	p.follows(t)
	return p
}

// follows waits until the replica has what the primary has.
func (p *pair) follows(t *testing.T) {
	t.Helper()
	p.marks++
	mark := fmt.Sprint("mark", p.marks)
	if _, err := p.primary.Query("CREATE DATABASE " + mark); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica does not follow", func() bool {
		_, err := p.replica.Query("USE " + mark)
		return err == nil
	})
}

// fail ends the primary and makes the replica one, to which clients come by themselves.
// What was on its way to the replica never arrives.
func (p *pair) fail(t *testing.T) {
	t.Helper()
	if err := p.wire.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	p.promote(t)
}

func (p *pair) promote(t *testing.T) {
	t.Helper()
	if err := p.replica.Promote(); err != nil {
		t.Fatal(err)
	}
	p.front.Retarget(p.replica.Addr)
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

// lasting is a claim that outlives a failover.
func lasting(name string) engine.Request {
	r := exclusive(name)
	r.WaitTTL = time.Minute
	return r
}

// stands makes sure that a claim is what it was, with the ticket that it had.
func stands(t *testing.T, e engine.Engine, c engine.Claim) {
	t.Helper()
	again(t, func() error {
		cs, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
		if err == nil && (cs[0].State != c.State || cs[0].Ticket != c.Ticket) {
			t.Errorf("%q was %v with ticket %d, and is %v with %d", c.Name, c.State, c.Ticket, cs[0].State, cs[0].Ticket)
		}
		return err
	})
}

// A replica that every commit waits for misses nothing that was answered: who held
// holds, who waited waits, and tickets go on from there.
func TestFailoverToASemiSynchronousReplicaLosesNothing(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	if err := p.primary.SemiSync(p.replica); err != nil {
		t.Fatal(err)
	}
	e, other := open(t, p.url), open(t, p.url)
	first, second := join(t, e, lasting("a")), join(t, other, lasting("a"))

	// Locks are taken all the time while the primary dies.
	var mu sync.Mutex
	answered := []engine.Claim{first}
	var all sync.WaitGroup
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				c, err := e.Join(ctx, lasting(fmt.Sprint(i, " ", n)))
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
		return len(answered) > 50
	})
	p.wire.BlackHole(true)
	time.Sleep(200 * time.Millisecond) // a primary that did not wait would answer some now
	p.fail(t)
	all.Wait()
	highest := uint64(0)
	for _, c := range answered {
		stands(t, e, c)
		highest = max(highest, c.Ticket)
	}
	stands(t, other, second)
	if leave(t, e, first) != engine.Held {
		t.Error("the first did not hold")
	}
	if c := renew(t, other, second, time.Minute); c.State != engine.Held || c.Ticket != second.Ticket {
		t.Errorf("who waited behind it is %v", c)
	}
	if c := join(t, e, exclusive("later")); c.Ticket <= highest {
		t.Errorf("ticket %d follows %d", c.Ticket, highest)
	}
}

// A replica that missed a grant grants again: that is what ?failover declares. The
// former holder is told at its next renewal, and the tokens rise with the servers'
// clocks.
func TestFailoverToAReplicaThatMissedAGrantIsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	e, other := open(t, p.url), open(t, p.url)
	if g := e.Guarantees(); g.Failover != engine.FailoverMayDouble || g.Fencing != engine.FencingMemory {
		t.Errorf("?failover declares %v and %v", g.Failover, g.Fencing)
	}
	locks, err := leasehold.New(open(t, p.url), &leasehold.Options{TTL: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	known := join(t, other, lasting("known"))
	p.follows(t)
	p.wire.BlackHole(true)
	first := join(t, e, lasting("a"))
	lease, err := locks.Lock(within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	p.fail(t)
	var second engine.Claim
	again(t, func() (err error) {
		second, err = other.Join(within(t), exclusive("a"))
		return err
	})
	if second.State != engine.Held || second.Ticket <= first.Ticket {
		t.Errorf("after ticket %d the new server says %v with ticket %d", first.Ticket, second.State, second.Ticket)
	}
	first.State, first.Ticket = engine.Gone, 0
	stands(t, e, first)
	stands(t, other, known) // this one it knew
	select {
	case <-lease.Context().Done():
		if err := lease.Unlock(); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("a holder that the new server does not know is told %v", err)
		}
	case <-within(t).Done():
		t.Error("a holder that the new server does not know is not told")
	}
}

// A primary that is made to read only, so that its replica takes its place, says so to
// whoever still has connections to it, and loses none of what it granted.
func TestAPrimaryThatLostItsPlaceSaysSo(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	e, other := open(t, p.url), open(t, p.url)
	first, second := join(t, e, lasting("a")), join(t, other, lasting("a"))
	p.follows(t)
	if _, err := p.primary.Query("SET GLOBAL read_only = ON"); err != nil {
		t.Fatal(err)
	}
	const reads = "only reads: it is a replica"
	for what, call := range map[string]func() error{
		"Join":    func() error { _, err := e.Join(within(t), exclusive("a")); return err },
		"Leave":   func() error { _, err := e.Leave(within(t), []engine.Claim{first}); return err },
		"renewal": func() error { return onlyRenew(t, e, first) },
		"a look":  func() error { return onlyRenew(t, other, second) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), reads) {
			t.Errorf("%s at the old primary: %v", what, err)
		}
	}
	refused(t, p.url, reads)
	refused(t, strings.Replace(p.url, "app@", "root@", 1), reads) // who may write there too
	p.front.Retarget(p.replica.Addr)
	refused(t, p.url, reads)
	p.promote(t)
	stands(t, e, first)
	stands(t, other, second)
	if c := join(t, open(t, p.url), exclusive("b")); c.State != engine.Held || c.Ticket <= second.Ticket {
		t.Errorf("after ticket %d: %v", second.Ticket, c)
	}
}

func onlyRenew(t *testing.T, e engine.Engine, c engine.Claim) error {
	t.Helper()
	_, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Second}})
	return err
}
