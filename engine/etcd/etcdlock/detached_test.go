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
