package etcdlock

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// detached is a request whose claim another client may go on with.
func detached(name string, ttl time.Duration) engine.Request {
	r := lasting(exclusive(name), ttl)
	r.Detached = true
	return r
}

func (e *Engine) knownClaims() int {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	return len(e.table.m.Claims)
}

// Another client has left what this one handed over: its TTLs are free again.
func TestATTLIsFreeAfterWhatWasHandedOverWasLeft(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	one := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for i := range session.MaxClasses - 1 { // start uses one
		held := joins(t, one, detached(fmt.Sprint(i), 10*time.Second<<i), engine.Held)
		if got := leave(t, other, held); got != engine.Held {
			t.Fatalf("it was found %v", got)
		}
	}
	joins(t, one, lasting(exclusive("one more"), 20*time.Hour), engine.Held)
	if n := one.knownClaims(); n != 1 {
		t.Errorf("%d claims are known, want the one that stands", n)
	}
}

// A client forgets a claim that it handed over when that has ended. It keeps one that lives
// on, whose slot is taken.
func TestWhatWasHandedOverIsForgottenWhenItHasEnded(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	one := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for try := 1; try <= 5; try++ {
		name, last := fmt.Sprint("lives", try), boottime.Now()
		lives := joins(t, one, detached(name, 2*time.Second), engine.Held)
		joins(t, one, detached(fmt.Sprint("ends", try), 2*time.Second), engine.Held)
		late := func() bool { return boottime.Now()-last > 2*time.Second } // its lease lasts three
		wasLate := false
		until(t, "it is not forgotten", func() bool {
			began := boottime.Now()
			got := renew(t, other, lives)
			if wasLate = late(); got.State != engine.Held && !wasLate {
				t.Fatalf("it is %v", got.State)
			}
			last = began
			return wasLate || one.knownClaims() < 2
		})
		if !wasLate {
			next := join(t, one, exclusive(name))
			if next.State == engine.Waiting {
				return
			}
			if !late() {
				t.Fatalf("who comes behind a claim that lives is %v", next.State)
			}
			leave(t, one, next)
		}
		until(t, "both are forgotten", func() bool { return one.knownClaims() == 0 })
	}
	t.Fatal("void: the machine was late each time")
}

// The callers of a service change its servers, and each server is a client. A Join that is repeated
// finds the claim that another client made, also where a Join here was not answered.
func TestARepeatedJoinFindsWhatAnotherClientMade(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	one := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	other := start(t, w.Client, nil)
	for _, c := range []struct {
		name   string
		noWait bool
		taken  bool // by a claim before it
		lost   bool // a Join by the other client came first, and never arrived
		want   engine.State
	}{
		{"it holds", false, false, false, engine.Held},
		{"it waits", false, true, false, engine.Waiting},
		{"it does not wait", true, false, false, engine.Held},
		{"it was asked for here before", false, false, true, engine.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := detached(c.name, time.Minute)
			r.NoWait = c.noWait
			line := 1
			if c.taken {
				joins(t, one, detached(c.name, time.Minute), engine.Held)
				line++
			}
			if c.lost {
				w.refuse.Store(true)
				if _, err := other.Join(within(t), r); err == nil {
					t.Fatal("void: the Join was answered")
				}
				w.refuse.Store(false)
			}
			made := joins(t, one, r, c.want)
			if got := renew(t, other, made); got.State != c.want {
				t.Errorf("it is renewed as %v", got.State)
			}
			r.Owner.Since = time.Now() // a service says when it was asked
			if got := joins(t, other, r, c.want); got.Ticket != made.Ticket {
				t.Errorf("it has ticket %d, and %d before", got.Ticket, made.Ticket)
			}
			q, err := other.Queue(within(t), c.name)
			if err != nil || len(q.Claims) != line {
				t.Errorf("the queue is %v, %v", q.Claims, err)
			}
			if got := leave(t, other, made); got != c.want {
				t.Errorf("it was found %v", got)
			}
		})
	}
}

// Another client makes the same claim between the two transactions of a Join. The later of the two
// is taken back.
func TestTwoJoinsOfOneClaimAtOnceMakeOne(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	one := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	other := start(t, w.Client, nil)
	joins(t, one, detached("a", time.Minute), engine.Held)
	r := detached("a", time.Minute)
	var made engine.Claim
	w.before("Txn", func() {
		w.before("Txn", func() { made = joins(t, one, r, engine.Waiting) })
	})
	if got := joins(t, other, r, engine.Waiting); got.Ticket != made.Ticket {
		t.Errorf("it has ticket %d, and %d by the other client", got.Ticket, made.Ticket)
	}
	q, err := other.Queue(within(t), "a")
	if err != nil || len(q.Claims) != 2 {
		t.Errorf("the queue is %v, %v", q.Claims, err)
	}
}

// A detached Join of a free name reads nothing first.
func TestADetachedJoinOfAFreeNameIsOneTransaction(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	w.counted()
	joins(t, e, detached("a", time.Minute), engine.Held)
	if got := w.counted(); got["Txn"] != 1 {
		t.Errorf("it asked for %v", got)
	}
}
