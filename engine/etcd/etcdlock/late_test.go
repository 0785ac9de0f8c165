package etcdlock

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// nobody waits until nothing is below the prefix, while the clients live.
func nobody(t testing.TB, admin *wire) {
	t.Helper()
	until(t, "nobody is in the queue", func() bool {
		r, err := admin.Get(within(t), "leasehold/line/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == 0
	})
}

// A member is stopped with a Join in its hands. The next one gets the lock, which
// is used and left, and then the first arrives: a claim that nobody knows, kept
// alive with its client's others for as long as that lives.
func TestJoinThatArrivesAfterItsClaimHasLeft(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	for _, c := range []struct {
		name   string
		again  bool // it was asked for again, and held
		tidied bool // the Leave was long ago
	}{
		{"asked for again, held and left long ago", true, true},
		{"asked for again, held and left", true, false},
		{"never answered and left long ago", false, true},
		{"never answered and left", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := dial(t, clientv3.Config{}, server.Addr)
			e := start(t, w.Client, nil)
			r := exclusive("late")
			r.WaitTTL = 10 * time.Second
			arrive := w.holdBack()
			if _, err := e.Join(within(t), r); err == nil {
				t.Fatal("void: the Join was answered")
			}
			if c.again {
				leave(t, e, joins(t, e, r, engine.Held))
			} else {
				leave(t, e, engine.Claim{Name: r.Name, ID: r.ID})
			}
			if c.tidied {
				until(t, "the engine has done with it", func() bool { return e.table.get(r.ID) == nil })
			}
			if err := arrive(); err != nil {
				t.Fatal(err)
			}
			nobody(t, admin)
			joins(t, e, exclusive("late"), engine.Held) // as ever
		})
	}
}

// A member is stopped with a Join in its hands that replaces a claim. That claim is left, and
// another has its key by the time that the Join arrives.
func TestALateReplacementEndsNoOtherClaim(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	old := joins(t, e, exclusive("a"), engine.Held)
	key := e.table.get(old.ID).key
	r := exclusive("a")
	r.Replaces = old.ID
	arrive := w.holdBack()
	if _, err := e.Join(within(t), r); err == nil {
		t.Fatal("void: the Join was answered")
	}
	leave(t, e, old)
	other := joins(t, e, exclusive("a"), engine.Held)
	if got := e.table.get(other.ID).key; got != key {
		t.Fatalf("void: its key is %q, and %q is free", got, key)
	}
	if err := arrive(); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, other); got.State != engine.Held {
		t.Errorf("a claim that nobody replaced is %v", got.State)
	}
}

// A member stands still with a Renew in its hands. Another is asked before that one is given up:
// a lease of the shortest TTL has no time for one after the other.
func TestARenewIsAskedOfAnotherBeforeTheFirstIsGivenUp(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startUsual(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	w.counted()
	w.stick("Txn")
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("it is %v", got.State)
	}
	until(t, "the first is given up", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.sentBy > 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sentBy < 2 || w.sentBy > hedgeMost { // three, if the second was late
		t.Errorf("%d were sent when the first was given up", w.sentBy)
	}
}

// The core asks for a TTL to leave, and then takes the claim for expired. It is not,
// if the client has gone on living.
func TestLeaveThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	w.refuse.Store(true)
	if got, err := e.Leave(within(t), []engine.Claim{held}); err == nil {
		t.Fatalf("void: the Leave was answered: %v", got)
	}
	w.refuse.Store(false)
	nobody(t, dial(t, clientv3.Config{}, server.Addr))
	until(t, "the engine has done with it", func() bool { return e.table.get(held.ID) == nil })
}

// Of three members one is stopped: requests that it got are sent once more, to
// another, in time for the lease.
func TestMemberThatDoesNotAnswer(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	const ttl = 5 * time.Second
	for _, method := range []string{"Txn", "LeaseKeepAlive"} {
		t.Run(method, func(t *testing.T) {
			e := startUsual(t, w.Client, nil)
			held := joins(t, e, lasting(exclusive("a"), ttl), engine.Held)
			unproven(e)
			w.stick(method)
			if got := renewIn(t, e, held, ttl); got.State != engine.Held {
				t.Errorf("its claim is %v", got.State)
			}
			w.stick(method)
			unproven(e)
			leave(t, e, joins(t, e, lasting(exclusive("b"), ttl), engine.Held))
			leave(t, e, held)
		})
	}
}

// So are the questions of those who look at a queue, or end the claims of others. An etcd
// lease that nothing hangs on is not worth a second question.
func TestMemberThatDoesNotAnswerWhoLooks(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for _, c := range []struct {
		call    string
		methods []string
		ask     func(t *testing.T, e *Engine, held engine.Claim, stick func()) error
	}{
		{"Queue", []string{"Range", "LeaseTimeToLive"}, func(t *testing.T, e *Engine, held engine.Claim, stick func()) error {
			stick()
			_, err := e.Queue(within(t), held.Name)
			return err
		}},
		{"Queues", []string{"Range"}, func(t *testing.T, e *Engine, held engine.Claim, stick func()) error {
			stick()
			for _, err := range e.Queues(within(t), held.Name) {
				return err
			}
			return errors.New("there are none")
		}},
		{"Revoke", []string{"Range", "LeaseTimeToLive", "Txn"}, func(t *testing.T, e *Engine, held engine.Claim, stick func()) error {
			stick()
			return e.Revoke(within(t), held.Name, held.Ticket, false)
		}},
		{"Leave of another's claim", []string{"Range"}, func(t *testing.T, e *Engine, held engine.Claim, stick func()) error {
			stick()
			_, err := e.Leave(within(t), []engine.Claim{held})
			return err
		}},
		{"Leave of a detached claim", []string{"LeaseRevoke"}, func(t *testing.T, e *Engine, held engine.Claim, stick func()) error {
			mine := joins(t, e, detached("beside "+held.Name, time.Minute), engine.Held)
			stick()
			_, err := e.Leave(within(t), []engine.Claim{mine})
			return err
		}},
		{"Join that is refused", []string{"LeaseRevoke"}, func(t *testing.T, e *Engine, held engine.Claim, stick func()) error {
			stick()
			_, err := e.Join(within(t), withoutWaiting(detached(held.Name, time.Minute)))
			return err
		}},
	} {
		for _, method := range c.methods {
			t.Run(c.call+", "+method, func(t *testing.T) {
				t.Parallel()
				w := dial(t, clientv3.Config{}, server.Addr)
				e := startUsual(t, w.Client, nil)
				held := joins(t, other, detached(t.Name(), time.Minute), engine.Held)
				if err := c.ask(t, e, held, func() { w.stick(method) }); err != nil {
					t.Error(err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.stuck != "" {
					t.Error("void: it did not ask for that")
				}
			})
		}
	}
}

// A leader that hands over drops what is proposed to it, and says so: it is asked for again.
func TestWhatALeaderDropsIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startUsual(t, w.Client, nil)
	dropped := status.Error(codes.Unknown, "raft proposal dropped")
	w.fail("Txn", dropped, dropped)
	leave(t, e, joins(t, e, exclusive("a"), engine.Held))
	w.fail("LeaseGrant", dropped)
	joins(t, e, lasting(exclusive("a"), time.Hour), engine.Held)
}

// A Revoke whose answer was lost is asked for again, and finds nothing to revoke.
func TestRevokeIsAskedForAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startUsual(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	w.stickAfter("Txn")
	if err := e.Revoke(within(t), held.Name, held.Ticket, true); err != nil {
		t.Error(err)
	}
	joins(t, e, exclusive("a"), engine.Held)
	if err := e.Revoke(within(t), held.Name, held.Ticket, true); !errors.Is(err, engine.ErrNoClaim) {
		t.Errorf("once more: %v", err)
	}
}

// The member that is stopped with a Leave may have carried it out: what is found by
// the next attempt says nothing then, and must not be taken for a loss.
func TestLeaveIsAskedForAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startUsual(t, w.Client, nil)
	t.Run("it was not carried out, and a hold is called lost", func(t *testing.T) {
		held := joins(t, e, exclusive("a"), engine.Held)
		w.stick("Txn")
		if got := leave(t, e, held); got != engine.Held {
			t.Errorf("it left as %v", got)
		}
	})
	t.Run("it was carried out, and a hold is called lost", func(t *testing.T) {
		held := joins(t, e, exclusive("a"), engine.Held)
		w.stickAfter("Txn")
		if got, err := e.Leave(within(t), []engine.Claim{held}); err == nil || len(got) > 0 {
			t.Errorf("it left as %v, %v", got, err)
		}
		joins(t, e, exclusive("a"), engine.Held)
	})
}

// Where etcd does not answer, what was given up is remembered up to a bound, and
// nothing more is sent.
func TestTooMuchIsLeft(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	e.table.mu.Lock()
	e.table.m.Indeterminate = maxLeft
	e.table.mu.Unlock()
	w.counted()
	if _, err := e.Join(within(t), exclusive("a")); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("Join: %v, want an error that is not final", err)
	}
	if got := w.counted(); len(got) > 0 {
		t.Errorf("it asked for %v", got)
	}
}
