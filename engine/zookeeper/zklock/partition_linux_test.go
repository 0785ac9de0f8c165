package zklock

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/lab/servers"
)

const partitionTick, partitionSession = 200 * time.Millisecond, 1600 * time.Millisecond

// A holder on the side of the smaller part of an ensemble: the server next to it
// goes on answering (pings, reads, what its session is) for as long as it waits for
// its leader, which here is five times as long as a session lasts. Meanwhile the
// larger part ends the session and lets the next one hold.
//
// Whoever trusts what that server says of the session believes that it holds too.
// The lease must have ended before, every time. A twin beside it, which holds by the
// client library's own lock and trusts its session's state, must be seen to overlap:
// a round in which it was not showed nothing, and another is needed.
func TestACutOffHolderLosesItsLeaseBeforeAnotherHolds(t *testing.T) {
	t.Parallel() // it waits for sessions to end
	rounds, pairs := 10, 10
	if testing.Short() {
		rounds, pairs = 1, 4
	}
	n := servers.NewNetwork(t, "zk1", "zk2", "zk3")
	e := servers.ZooKeeperEnsembleOn(t, n.Hosts, &servers.ZooKeeperOptions{Tick: partitionTick, Config: append([]string{"syncLimit=40"}, granting...)})
	follower, other := -1, -1
	for i, s := range e.Servers {
		mode, err := s.Mode()
		switch {
		case err != nil:
			t.Fatal(err)
		case mode == "follower" && follower < 0:
			follower = i
		default:
			other = i
		}
	}
	at := func(host int, session time.Duration) *leasehold.Client {
		o := on(e.Servers[host]) // the one beside it: no other is in its reach later
		o.ttl, o.Dial = session/2, n.Hosts[host].Dial
		c, err := leasehold.New(open(t, o).Engine, &leasehold.Options{TTL: o.ttl})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	round, overlaps := 0, 0
	for ; overlaps < rounds && round < rounds+10; round++ {
		twin, twinWaits := plainAt(t, n, e, follower, partitionSession), plainAt(t, n, e, other, lasting)
		for zk.NewLock(twin, "/twin", zk.WorldACL(zk.PermAll)).Lock() != nil { // it was away for too long
			twin.Close()
			twin = plainAt(t, n, e, follower, partitionSession)
		}
		type obtained struct {
			err             error
			valid, notified bool // of the other lease at that moment
		}
		next := make(chan obtained, pairs)
		var clients []*leasehold.Client
		for i := range pairs {
			// Each holder began at a time of its own: the cut comes at any moment
			// between two proofs.
			time.Sleep(partitionSession / 6 / time.Duration(pairs))
			holder, waiter, name := at(follower, partitionSession), at(other, lasting), "x"+itoa(i)
			clients = append(clients, holder, waiter)
			first, err := holder.Lock(within(t), name)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := waiter.Lock(ctx, name)
				next <- obtained{err, first.Valid(), first.Context().Err() != nil}
			}()
			select {
			case <-first.Contended():
			case <-first.Context().Done(): // it was away for too long: this pair shows nothing
			}
		}
		twinNext := make(chan zk.State, 1)
		go func() {
			if err := zk.NewLock(twinWaits, "/twin", zk.WorldACL(zk.PermAll)).Lock(); err != nil {
				t.Errorf("the twin: %v", err)
			}
			twinNext <- twin.State()
		}()
		if err := n.Hosts[follower].Cut(); err != nil {
			t.Fatal(err)
		}
		for range pairs {
			switch o := <-next; {
			case o.err != nil:
				t.Errorf("round %d: the larger part grants nothing: %v", round, o.err)
			case o.valid || !o.notified:
				t.Errorf("round %d: two hold: the lease of who was cut off is valid: %v, ended: %v", round, o.valid, o.notified)
			}
		}
		if state := <-twinNext; state == zk.StateHasSession {
			overlaps++
		}
		if err := n.Hosts[follower].Heal(); err != nil {
			t.Fatal(err)
		}
		for _, c := range clients {
			c.Close()
		}
		twin.Close()
		twinWaits.Close()
	}
	if overlaps < rounds {
		t.Errorf("who trusts the state of its session overlapped in %d of %d rounds: the others show nothing", overlaps, round)
	}
	t.Logf("%d holders in %d cuts: each lease had ended, and the session looked alive in %d", round*pairs, round, overlaps)
}

// plainAt is a client of the library alone.
func plainAt(t *testing.T, n *servers.Network, e *servers.Ensemble, host int, session time.Duration) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{e.Servers[host].Addr}, session, zk.WithLogger(silent{}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return n.Hosts[host].Dial(ctx, network, address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	for ev := range events {
		if ev.State == zk.StateHasSession {
			break
		}
	}
	return conn
}
