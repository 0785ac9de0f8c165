package etcdlock

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// An operator revokes the lease: the holder is told at the next beat, and a new
// session inherits nothing.
func TestLeaseIsRevokedByAnOperator(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held := joins(t, e, lasting(exclusive("a"), 5*time.Second), engine.Held) // a renewal interval: 1 s
	s := e.table.get(held.ID).class.Session
	was := e.current(s).id
	if _, err := admin.Revoke(within(t), was); err != nil {
		t.Fatal(err)
	}
	receives(t, received, engine.Claim{}) // look at everything
	if got := renew(t, e, held); got.State != engine.Gone {
		t.Errorf("after its lease was revoked a claim is %v", got.State)
	}
	again := joins(t, e, lasting(exclusive("a"), 5*time.Second), engine.Held)
	if again.Ticket <= held.Ticket || e.current(s).id == was {
		t.Errorf("ticket %d after %d, session %x after %x", again.Ticket, held.Ticket, e.current(s).id, was)
	}
}

// A keep-alive whose answer is late proves no more than one that was answered at
// once: what counts is when it was sent. (The core counts from the start of its own
// calls as well, so that one of the two alone would go unnoticed for long.)
func TestProofCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil) // no renewal interval comes in between
	s := now(e)
	var sent atomic.Int64 // 0: not yet
	w.before("LeaseKeepAlive", func() {
		sent.Store(int64(boottime.Now()))
		time.Sleep(100 * time.Millisecond)
	})
	if err := e.prove(within(t), first(e), s.id, s.until+1); err != nil && sent.Load() == 0 {
		t.Fatal(err)
	}
	after := now(e)
	if after.asked <= s.asked {
		t.Fatal("void: nothing was asked")
	}
	if at := time.Duration(sent.Load()); after.asked > at || after.until > at+renewalIntervals*first(e).renewalInterval {
		t.Errorf("sent at %v, it is said to have been asked at %v and to prove the lease until %v later", at, after.asked, after.until-at)
	}
}

// So does the proof that a new session begins with, and one that goes on with a new lease
// after a change of the leader.
func TestANewSessionIsProvenFromTheRequest(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	for what, grant := range map[string]func(e *Engine) error{
		"a new one": func(e *Engine) error {
			e.sessionEnded(now(e).id)
			_, err := e.begin(within(t), first(e))
			return err
		},
		"another leads": func(e *Engine) error {
			anotherLeads(e)
			err := e.prove(within(t), first(e), now(e).id, boottime.Now())
			if !errors.Is(err, errReplaced) {
				return fmt.Errorf("it was not replaced: %w", err)
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := dial(t, clientv3.Config{}, server.Addr)
			e := start(t, w.Client, nil) // no renewal interval comes in between
			var sent atomic.Int64        // 0: not yet
			w.before("LeaseGrant", func() {
				sent.Store(int64(boottime.Now()))
				time.Sleep(100 * time.Millisecond)
			})
			err := grant(e)
			at := time.Duration(sent.Load())
			if err != nil || at == 0 {
				t.Fatal(at, err)
			}
			if after := now(e); after.asked > at || after.until > at+renewalIntervals*first(e).renewalInterval {
				t.Errorf("sent at %v, it is said to have been asked at %v and to prove the lease until %v later", at, after.asked, after.until-at)
			}
		})
	}
}

// The beat may be far away: a Join finds out first.
func TestJoinAfterTheSessionEnded(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held := joins(t, e, exclusive("a"), engine.Held)
	if _, err := admin.Revoke(within(t), now(e).id); err != nil {
		t.Fatal(err)
	}
	joins(t, e, exclusive("b"), engine.Held)
	receives(t, received, engine.Claim{})
	if got := renew(t, e, held); got.State != engine.Gone {
		t.Errorf("a claim of the session before is %v", got.State)
	}
}

func TestKeyOfAHolderIsDeleted(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	if _, err := admin.Delete(within(t), "leasehold/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, held); got.State != engine.Gone {
		t.Errorf("its key was deleted, and a claim is %v", got.State)
	}
}

// A Leave of a former incarnation that arrives late must not end the next one, which has
// the same key.
func TestLateLeaveOfAFormerLife(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	r := exclusive("a")
	former := joins(t, e, r, engine.Held)
	late := &left{got: former, key: e.table.get(r.ID).key, ticket: former.Ticket, client: e.name, held: true}
	if _, err := admin.Delete(within(t), late.key); err != nil {
		t.Fatal(err)
	}
	now := joins(t, e, r, engine.Held)
	if now.Ticket <= former.Ticket {
		t.Fatalf("void: ticket %d after %d", now.Ticket, former.Ticket)
	}
	late.got.State = engine.Gone
	if err := e.leaveAll(within(t), []*left{late}); err != nil || late.got.State != engine.Gone {
		t.Errorf("the late Leave found %v, %v", late.got.State, err)
	}
	if got := renew(t, e, now); got.State != engine.Held {
		t.Errorf("the late Leave was of a former incarnation, and the claim is %v", got.State)
	}
}

// A marked holder that neither leaves nor dies loses its room when the lease it had
// would have ended without it, though its client lives on and renews.
func TestMarkedHolderThatStaysLosesItsRoom(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, other)
	held := joins(t, e, lasting(exclusive("a"), 4*time.Second), engine.Held)
	next := joins(t, other, exclusive("a"), engine.Waiting)
	if err := other.Revoke(within(t), "a", held.Ticket, false); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, held); got.State != engine.Gone || !got.Revoked {
		t.Fatalf("a revoked claim is %v, revoked: %v", got.State, got.Revoked)
	}
	receives(t, received, as(next, engine.Held))
	if now(e).id == 0 {
		t.Error("void: the client's session ended as well")
	}
}

// Adopted claims are looked for in their queue.
func TestDetachedClaimIsRenewedAndLeftByAnother(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	one := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	const ttl = 5 * time.Second // its lease lasts six
	held := joins(t, one, detached("a", ttl), engine.Held)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for range 8 { // together longer than its lease
		if got := renew(t, other, held); got.State != engine.Held || got.Ticket != held.Ticket {
			t.Fatalf("it is %v with ticket %d", got.State, got.Ticket)
		}
		time.Sleep(ttl / 4)
	}
	if got := leave(t, other, held); got != engine.Held {
		t.Errorf("it was found %v", got)
	}
}

// Full: nobody new, while those in the queue are renewed, told and left.
func TestServerIsFull(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, &servers.EtcdOptions{Args: []string{"--quota-backend-bytes=200000"}})
	admin := dial(t, clientv3.Config{}, server.Addr)
	const ttl = 4 * time.Second
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held := joins(t, e, lasting(exclusive("a"), ttl), engine.Held)
	next := joins(t, e, exclusive("a"), engine.Waiting)
	until(t, "it is full", func() bool {
		_, err := admin.Put(t.Context(), "ballast", strings.Repeat("x", 100_000))
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	_, err := e.Join(within(t), exclusive("b"))
	if err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "disarm the alarm") {
		t.Errorf("a Join of a full etcd says %v", err)
	}
	for range 4 { // longer than the session without beats
		time.Sleep(ttl / 2)
		if got := renew(t, e, held); got.State != engine.Held {
			t.Fatalf("the holder is %v", got.State)
		}
	}
	if got := leave(t, e, held); got != engine.Held {
		t.Errorf("it was found %v", got)
	}
	receives(t, received, as(next, engine.Held))
}

// Full, and then another leads: no etcd lease is granted, and the one of the former leader is
// not trusted for longer than that promised. With space again the claims go on.
func TestServerIsFullAndAnotherLeads(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, &servers.EtcdOptions{Args: []string{"--quota-backend-bytes=200000"}})
	admin := dial(t, clientv3.Config{}, server.Addr)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	until(t, "it is full", func() bool {
		_, err := admin.Put(t.Context(), "ballast", strings.Repeat("x", 100_000))
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	anotherLeads(e)
	ask := []engine.Renewal{{Name: held.Name, ID: held.ID, Want: short}}
	var got []engine.Claim
	var err error
	until(t, "it is refused, and asked for once", func() bool {
		w.counted()
		got, err = e.Renew(within(t), ask)
		return errors.Is(err, rpctypes.ErrNoSpace) && w.counted()["LeaseGrant"] == 1
	})
	if len(got) > 0 || !strings.Contains(err.Error(), "until the leader changes") || now(e).until != 0 {
		t.Errorf("it learned %v and trusts the etcd lease: %v", got, err)
	}
	if _, err := admin.Delete(within(t), "ballast"); err != nil {
		t.Fatal(err)
	}
	r, err := admin.Get(within(t), "ballast")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Compact(within(t), r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Defragment(within(t), server.Addr); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AlarmDisarm(within(t), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("with space again its claim is %v", got.State)
	}
}

// A backup put back takes away what was granted since: whoever held is told.
func TestBackupIsPutBack(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	backup, err := server.Backup()
	if err != nil {
		t.Fatal(err)
	}
	held := joins(t, e, lasting(exclusive("a"), short), engine.Held)
	if err := server.Restore(backup); err != nil {
		t.Fatal(err)
	}
	until(t, "the holder is told", func() bool {
		got, err := e.Renew(within(t), []engine.Renewal{{Name: held.Name, ID: held.ID, Want: short}})
		return err == nil && got[0].State == engine.Gone
	})
}

// The leader is killed while one holds and another waits: the hold goes on, and
// the hand-over works under the next leader.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	cluster := servers.EtcdCluster(t, nil)
	ttl := 10 * time.Second // an election takes one or two, where nobody is in its way
	lock := func() *leasehold.Client {
		locks, err := leasehold.New(startUsual(t, dial(t, clientv3.Config{}, cluster.Addrs()...).Client, nil), &leasehold.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	one, other := lock(), lock()
	for round := range testutil.Sized(3, 1) {
		held, err := one.Lock(within(t), "a")
		if err != nil {
			t.Fatal(err)
		}
		type grant struct {
			lease *leasehold.Lease
			err   error
		}
		granted := make(chan grant, 1)
		go func() {
			l, err := other.Lock(within(t), "a")
			granted <- grant{l, err}
		}()
		until(t, "the other waits", func() bool {
			l, err := one.Queue(within(t), "a")
			return err == nil && len(l.Claims) == 2
		})
		leader, err := cluster.Leader()
		if err != nil {
			t.Fatal(err)
		}
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		renewedPast := time.Now().Add(ttl) // only renewals under the next leader carry it there
		until(t, "the hold outlives what was proven before", func() bool {
			if !held.Valid() {
				t.Fatalf("round %d: the hold was lost: %v", round, held.Context().Err())
			}
			return time.Now().After(renewedPast)
		})
		if err := held.Unlock(); err != nil {
			t.Errorf("Unlock: %v", err)
		}
		g := <-granted
		if g.err != nil {
			t.Fatal(g.err)
		}
		if g.lease.Token() <= held.Token() {
			t.Errorf("token %v after %v", g.lease.Token(), held.Token())
		}
		if err := g.lease.Unlock(); err != nil {
			t.Error(err)
		}
		if err := leader.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

// watchers is how many watches the server has, or 0 if it does not say: whoever waits for some
// asks again.
func watchers(t testing.TB, server *servers.EtcdServer) int {
	t.Helper()
	n, err := server.Metric("etcd_debugging_mvcc_watcher_total", nil)
	if err != nil {
		t.Log(err)
		return 0
	}
	return int(n)
}

// A holder that unlocks before it hears of its revocation hears of it by that.
func TestALeaveOfARevokedHolderSaysSo(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for _, n := range []int{1, 3} {
		held := make([]engine.Claim, n)
		for i := range held {
			held[i] = joins(t, e, exclusive(fmt.Sprint("revoked ", n, i)), engine.Held)
			if err := other.Revoke(within(t), held[i].Name, held[i].Ticket, false); err != nil {
				t.Fatal(err)
			}
		}
		got, err := e.Leave(within(t), held)
		if err != nil || len(got) != n {
			t.Fatalf("Leave of %d: %v, %v", n, got, err)
		}
		for _, c := range got {
			if c.State != engine.Gone || !c.Revoked {
				t.Errorf("Leave of %d found a revoked holder %v, revoked: %v", n, c.State, c.Revoked)
			}
		}
		joins(t, other, exclusive(held[0].Name), engine.Held)
	}
}

// Calls of one name are kept apart by it: a Leave that finds one of its claims marked asks
// about that one once more, and under no other's name.
func TestWhatIsLeftAsMarkedIsAskedForUnderItsName(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	var asked []string
	e.group.Many = 0 // as if many callers were about
	e.group.Key = func(c *call) string {
		asked = append(asked, c.name)
		return c.name
	}
	for _, names := range [][]string{{"marked"}, {"marked", "b", "c"}, {"a", "marked", "c"}, {"a", "b", "marked"}} {
		var held []engine.Claim
		for _, name := range names {
			c := joins(t, e, exclusive(name), engine.Held)
			if held = append(held, c); name != "marked" {
				continue
			}
			if err := other.Revoke(within(t), name, c.Ticket, false); err != nil {
				t.Fatal(err)
			}
		}
		asked = nil
		if got, err := e.Leave(within(t), held); err != nil || len(got) != len(held) {
			t.Fatalf("Leave of %q: %v, %v", names, got, err)
		}
		if len(asked) == 0 || asked[len(asked)-1] != "marked" {
			t.Errorf("the Leave of %q asks for %q", names, asked)
		}
	}
}
