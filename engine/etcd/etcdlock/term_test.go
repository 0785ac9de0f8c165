package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/servers"
)

// moveLeader has another member lead, and so begins another term.
func moveLeader(t testing.TB, set *servers.EtcdSetup) {
	t.Helper()
	until(t, "another member leads", func() bool {
		err := tryMoveLeader(t, set)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

// tryMoveLeader asks once. etcd gives up a move that takes longer than an election, and may
// answer nothing then.
func tryMoveLeader(t testing.TB, set *servers.EtcdSetup) error {
	leader, err := set.Leader()
	if err != nil {
		return err
	}
	c := dial(t, clientv3.Config{}, leader.Addr).Client
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	members, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range members.Members {
		if !strings.Contains(strings.Join(m.ClientURLs, " "), leader.Addr) {
			_, err := c.MoveLeader(ctx, m.ID)
			return err
		}
	}
	return errors.New("there is no other member")
}

// attachedTo is the lease of every claim in the queue.
func attachedTo(t testing.TB, e *Engine, name string) (leases []clientv3.LeaseID) {
	t.Helper()
	l, _, err := e.lookAt(within(t), reading{name: name}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l.places {
		leases = append(leases, p.lease)
	}
	return leases
}

// After the leader has changed all claims of a session are attached to a new lease, and are what
// they were: those that hold, that wait and that are marked.
func TestClaimsAreAttachedToALeaseOfTheNewTerm(t *testing.T) {
	t.Parallel() // it mostly waits
	set := servers.EtcdCluster(t, nil)
	one := startUsual(t, dial(t, clientv3.Config{}, set.Addrs()...).Client, nil)
	other := startUsual(t, dial(t, clientv3.Config{}, set.Addrs()...).Client, nil)
	const ttl = 4 * time.Second
	// More than one transaction attaches.
	var held, waiting []engine.Claim
	for i := range atOnce + 8 {
		name := fmt.Sprint("n", i)
		held = append(held, joins(t, one, lasting(exclusive(name), ttl), engine.Held))
		waiting = append(waiting, joins(t, other, lasting(exclusive(name), ttl), engine.Waiting))
	}
	marked := joins(t, one, lasting(exclusive("marked"), ttl), engine.Held)
	if err := other.Revoke(within(t), "marked", marked.Ticket, false); err != nil {
		t.Fatal(err)
	}
	was := attachedTo(t, one, "n0")
	for round := range 2 {
		keep := func() { // nobody renews a marked claim, and each pass may take as long as its lease lasts
			until(t, "the lease of the marked claim does not go on", func() bool {
				leases := attachedTo(t, one, "marked")
				if len(leases) == 0 {
					t.Fatalf("round %d: the marked claim has ended", round)
				}
				_, err := one.client.KeepAliveOnce(within(t), leases[0]) // which ends if the claim moves to another meanwhile
				return err == nil
			})
		}
		moveLeader(t, set)
		until(t, "claims are attached to the lease of a former term", func() bool {
			for i := range held {
				if i%8 == 0 {
					keep()
				}
				now := attachedTo(t, one, held[i].Name)
				if len(now) != 2 {
					t.Fatalf("round %d: %d claims are in the queue of %s", round, len(now), held[i].Name)
				}
				if now[0] == was[0] || now[1] == was[1] || !isSession(now[0]) || !isSession(now[1]) {
					return false
				}
			}
			return true
		})
		was = attachedTo(t, one, "n0")
		for i := range held {
			if i%8 == 0 {
				keep()
			}
			if got := renew(t, one, held[i]); got.State != engine.Held || got.Ticket != held[i].Ticket || got.TTL != ttl {
				t.Fatalf("round %d: the holder is %+v, and was %+v", round, got, held[i])
			}
			if got := renew(t, other, waiting[i]); got.State != engine.Waiting || got.Ticket != waiting[i].Ticket {
				t.Fatalf("round %d: the waiter is %+v, and was %+v", round, got, waiting[i])
			}
		}
		if got := renew(t, one, marked); got.State != engine.Gone || !got.Revoked {
			t.Fatalf("round %d: the marked claim is %+v", round, got)
		}
	}
	// Claims that were attached anew are marked, given up and promoted like others.
	if err := other.Revoke(within(t), "n0", held[0].Ticket, false); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, one, held[0]); got.State != engine.Gone || !got.Revoked {
		t.Errorf("the marked claim is %+v", got)
	}
	if got := leave(t, one, held[1]); got != engine.Held {
		t.Errorf("the holder was found %v", got)
	}
	until(t, "the next one does not hold", func() bool { return renew(t, other, waiting[1]).State == engine.Held })
	if got := leave(t, other, waiting[2]); got != engine.Waiting {
		t.Errorf("the waiter was found %v", got)
	}
}

// The lease of a former term is trusted no longer than the last keep-alive of that term
// proves it, whatever the new leader says.
func TestALeaseOfAFormerTermIsNotTrustedLonger(t *testing.T) {
	t.Parallel() // it mostly waits
	set := servers.EtcdCluster(t, nil)
	e := startUsual(t, dial(t, clientv3.Config{}, set.Addrs()...).Client, nil)
	joins(t, e, lasting(exclusive("a"), time.Minute), engine.Held) // far from its next renewal interval
	s := e.lives()[len(e.lives())-1]
	for _, one := range e.lives() {
		if one.seconds > s.seconds {
			s = one
		}
	}
	before := e.current(s)
	moveLeader(t, set)
	if err := e.prove(within(t), s, before.id, before.until+1); err != errReplaced {
		t.Fatalf("the lease of the former term is proven: %v", err)
	}
	if now := e.current(s); now.id == before.id {
		t.Error("the session has the same lease")
	}
	if now := attachedTo(t, e, "a"); len(now) != 1 || now[0] == before.id {
		t.Errorf("the claim is attached to %x", now)
	}
}

// Leaders stand still, while clients go on with another one, and then go on. Without a new
// lease in each term a quarter of them end every lease of a client.
func TestALeaderThatStoodStillEndsNoLease(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	t.Parallel() // it mostly waits
	set := servers.EtcdCluster(t, nil)
	lived := 0
	for round := range rounds {
		locks, err := leasehold.New(startUsual(t, dial(t, clientv3.Config{}, set.Addrs()...).Client, nil), &leasehold.Options{TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var all []*leasehold.Lease
		for i := range 5 {
			l, err := locks.Lock(within(t), fmt.Sprint("n", i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		leader, err := set.Leader()
		if err != nil {
			t.Fatal(err)
		}
		if err := leader.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second) // the etcd lease lasts six
		var living []*leasehold.Lease
		for _, l := range all { // a machine that has much to do may have lost them in the election
			if l.Valid() {
				living = append(living, l)
			}
		}
		if err := leader.Cont(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for _, l := range living {
			lost, is := errors.AsType[*leasehold.LostError](context.Cause(l.Context()))
			if is && lost.Reason == leasehold.LossDeleted { // else no renewal came through in time
				t.Errorf("round %d: %s was lost: %v", round, l.Name(), lost)
			}
		}
		t.Logf("round %d: %d of %d leases lived on over the election", round, len(living), len(all))
		lived += len(living)
		if err := locks.Close(); errors.Is(err, context.DeadlineExceeded) {
			t.Logf("round %d: %v", round, err) // the members may be at an election still; the claims end by their TTL
		} else if err != nil {
			t.Error(err)
		}
		if err := set.Healthy(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if lived == 0 {
		t.Error("void: no lease lived on over an election")
	}
}

// A claim's session has ended, and its client learns of that by a repeated Join. Nothing may
// stand in the queue that nobody knows.
func TestAJoinThatFindsItsSessionEndedLeavesNothing(t *testing.T) {
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	r := lasting(exclusive("a"), 5*time.Second)
	joins(t, e, r, engine.Held)
	for _, l := range attachedTo(t, e, "a") {
		if _, err := e.client.Revoke(within(t), l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := e.Join(within(t), r)
	if err == nil && got.State == engine.Gone {
		t.Errorf("the claim is %+v, and its key was made", got)
	}
	if err == nil {
		leave(t, e, got)
	}
	if left := attachedTo(t, e, "a"); len(left) > 0 {
		t.Errorf("claims stand that nobody knows, on %x", left)
	}
}

// A session that has ended has no lease to attach a claim to. A key without one would never end.
func TestNoClaimIsAttachedToNoLease(t *testing.T) {
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	got := joins(t, e, exclusive("a"), engine.Held) // far from its next renewal interval
	c := e.table.get(got.ID)
	l, _, err := e.lookAt(within(t), reading{name: "a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := l.places[0]
	e.mu.Lock()
	c.class.Session.id = 0
	e.mu.Unlock()
	if err := e.proveJoined(within(t), c, &p, 0); err != errEndedMeanwhile {
		t.Error(err)
	}
	if on := attachedTo(t, e, "a"); len(on) != 1 || on[0] != p.lease {
		t.Errorf("it is attached to %x", on)
	}
}

// That a lease has ended is believed if all members agree.
func TestALeaseLivesWhileItCanBeWrittenBy(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	joins(t, e, lasting(exclusive("a"), 5*time.Second), engine.Held)
	on := attachedTo(t, e, "a")[0]
	if lives, err := e.writable(within(t), on); !lives || err != nil {
		t.Errorf("a lease that lives: %v, %v", lives, err)
	}
	if _, err := e.client.Revoke(within(t), on); err != nil {
		t.Fatal(err)
	}
	if lives, err := e.writable(within(t), on); lives || err != nil {
		t.Errorf("a lease that was revoked: %v, %v", lives, err)
	}
}

// The Join of a claim is answered after its lease was replaced. It is attached to the new lease, or
// the Join says that it ended.
func TestAClaimThatJoinedByAReplacedLease(t *testing.T) {
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for _, gone := range []bool{false, true} {
		name := fmt.Sprint("gone ", gone)
		got := joins(t, e, lasting(exclusive(name), 5*time.Second), engine.Held)
		c := e.table.get(got.ID)
		l, _, err := e.lookAt(within(t), reading{name: name}, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := l.places[0]
		s := c.class.Session
		if err := s.proving.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := e.current(s)
		id, ttl, err := e.grant(within(t), s.seconds, newSessionID)
		if err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		s.id, s.asked, s.until = id, now.asked, now.asked+ttl // as replace does
		e.mu.Unlock()
		s.proving.unlock()
		if gone {
			if _, err := e.client.Revoke(within(t), p.lease); err != nil {
				t.Fatal(err)
			}
		}
		err = e.proveJoined(within(t), c, &p, now.asked)
		if gone && err != errEndedMeanwhile || !gone && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left := attachedTo(t, e, name); !gone && (len(left) != 1 || left[0] != id) || gone && len(left) > 0 {
			t.Errorf("%s: it is attached to %x, not on %x", name, left, id)
		}
	}
}
