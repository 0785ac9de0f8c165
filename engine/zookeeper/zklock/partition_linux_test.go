package zklock

import (
	"context"
	"testing"
	"time"

	"leasehold"
	"leasehold/internal/servers"
)

// A holder on the side of the smaller part of an ensemble: the server next to it
// goes on answering (pings, reads, what its session is) for as long as it waits for
// its leader, which here is three times as long as a session lasts. Meanwhile the
// larger part ends the session and lets the next one hold.
//
// Whoever trusts what that server says of the session believes that it holds too.
// The lease must have ended before, every time; and every time the twin that
// believes the session's state must be seen to overlap, or the test saw nothing.
func TestACutOffHolderLosesItsLeaseBeforeAnotherHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	const rounds = 20
	const tick, session = 200 * time.Millisecond, 1600 * time.Millisecond
	n := servers.NewNetwork(t, "zk1", "zk2", "zk3")
	e := servers.ZooKeeperEnsembleOn(t, n.Hosts, &servers.ZooKeeperOptions{Tick: tick, Config: []string{"syncLimit=25"}})
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
	at := func(host int) client {
		o := on(e.Servers[host]) // the one beside it: no other is in its reach later
		o.Session, o.Dial = session, n.Hosts[host].Dial
		return open(t, o)
	}
	overlaps := 0
	for round := range rounds {
		a, b := at(follower), at(other)
		holder, err := leasehold.New(a, nil)
		if err != nil {
			t.Fatal(err)
		}
		waiter, err := leasehold.New(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := holder.Lock(within(t), "x")
		if err != nil {
			t.Fatal(err)
		}
		type obtained struct {
			lease *leasehold.Lease
			err   error
			// as they were at that moment
			valid, told, session bool
		}
		next := make(chan obtained, 1)
		go func() {
			var o obtained
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			o.lease, o.err = waiter.Lock(ctx, "x")
			o.valid, o.told = first.Valid(), first.Context().Err() != nil
			_, o.session = a.link.current()
			next <- o
		}()
		<-first.Contended()
		time.Sleep(session / 4 * time.Duration(round%4) / 3) // at any moment between two proofs
		if err := n.Hosts[follower].Cut(); err != nil {
			t.Fatal(err)
		}
		o := <-next
		if err := n.Hosts[follower].Heal(); err != nil {
			t.Fatal(err)
		}
		switch {
		case o.err != nil:
			t.Fatalf("round %d: the larger part grants nothing: %v", round, o.err)
		case o.valid || !o.told:
			t.Errorf("round %d: two hold: the lease of who was cut off is valid: %v, ended: %v", round, o.valid, o.told)
		}
		if o.session {
			overlaps++
		}
		_ = o.lease.Unlock()
		_ = first.Unlock()
		holder.Close()
		waiter.Close()
	}
	if overlaps < rounds {
		t.Errorf("who trusts the state of its session overlapped in %d of %d rounds: the others show nothing", overlaps, rounds)
	}
	t.Logf("%d of %d: the lease had ended, and the session looked alive", overlaps, rounds)
}
