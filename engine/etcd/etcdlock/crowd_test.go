package etcdlock

import (
	"fmt"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// comes has so many callers of a client ask for one name at once, and returns their
// claims, the holder first.
func comes(t testing.TB, e *Engine, name string, many int) []engine.Claim {
	t.Helper()
	claims := make([]engine.Claim, many)
	var all sync.WaitGroup
	for i := range claims {
		all.Go(func() {
			r := exclusive(name)
			var err error
			if claims[i], err = e.Join(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return claims
}

// A crowd on one name: few requests are under way at once, each caller sends one,
// and what is read is no multiple of the queue for each of them.
func TestCrowdOfOneClient(t *testing.T) {
	t.Parallel()
	callers := testutil.Sized(600, 200)
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	joins(t, e, exclusive("a"), engine.Held)
	w.counted()
	comes(t, e, "a", callers)
	w.mu.Lock()
	defer w.mu.Unlock()
	// Groups, who is not in one, and watches that look at what they missed; the first
	// waiter tells the holder.
	if most := maxSenders + many - 1 + maxMissed + 1; w.most > most {
		t.Errorf("%d transactions were under way at once, want %d", w.most, most)
	}
	if most := 40 * callers; w.read > most {
		t.Errorf("%d callers read %d keys, want %d", callers, w.read, most)
	}
	if n := w.counts["Txn"]; n > 3*callers {
		t.Errorf("%d callers asked for %d transactions", callers, n)
	}
}

// Long queues are left as cheaply: who waits behind one that stands does not read it.
func TestCrowdLeaves(t *testing.T) {
	t.Parallel()
	many := testutil.Sized(300, 100)
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	claims := comes(t, e, "a", many)
	w.mu.Lock()
	w.read = 0
	w.mu.Unlock()
	byTicket(claims)
	for _, c := range claims {
		leave(t, e, c)
	}
	w.mu.Lock()
	read := w.read
	w.mu.Unlock()
	if read > 5*many { // some look at what they missed while they came
		t.Errorf("%d that left read %d keys", many, read)
	}
	leave(t, e, held)
	nobody(t, w)
}

// Many clients with a crowd each: all come in the queue, and an unrelated name keeps its
// lease.
func TestCrowdsOfManyClients(t *testing.T) {
	t.Parallel()
	clients, each := 5, testutil.Sized(60, 20)
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	unrelated := start(t, admin.Client, nil)
	held := joins(t, unrelated, exclusive("unrelated"), engine.Held)
	var all sync.WaitGroup
	for range clients {
		e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
		all.Go(func() { comes(t, e, "a", each) })
	}
	all.Wait()
	if got := renew(t, unrelated, held); got.State != engine.Held {
		t.Errorf("the unrelated claim is %v", got.State)
	}
	l, err := unrelated.Queue(within(t), "a")
	if err != nil || len(l.Claims) != clients*each {
		t.Errorf("%d are in the queue, %v", len(l.Claims), err)
	}
}

// etcd has too much to do, or elects a leader: opening an engine, and a Join, come back later, by
// themselves.
func TestServerIsBusy(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	w.fail("Txn", rpctypes.ErrGRPCTimeoutDueToLeaderFail)
	e := startUsual(t, w.Client, nil)
	w.fail("Txn", rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCTimeout)
	held := joins(t, e, exclusive("a"), engine.Held)
	w.fail("Txn", rpctypes.ErrGRPCRequestTooManyRequests)
	if got := renew(t, e, held); got.State != engine.Held {
		t.Errorf("it is %v", got.State)
	}
	w.fail("Txn", rpctypes.ErrGRPCRequestTooManyRequests)
	leave(t, e, held)
}

// An answer that does not come is no reason to propose once more while nobody answers
// anything: the first proposal may be in a queue.
func TestNoSecondProposalWhileTheFirstMayBeQueued(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := startUsual(t, w.Client, nil)
	for try := 1; ; try++ { // where the machine was late, more is asked
		w.counted()
		w.stick("Txn")
		asked := make(chan int, 1)
		w.before("Range", func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			asked <- w.counts["Txn"]
		})
		joins(t, e, exclusive(fmt.Sprint("a", try)), engine.Held)
		got := w.counted()
		select {
		case n := <-asked:
			if n != 1 {
				t.Errorf("%d proposals were sent before anybody answered a question", n)
			}
		default:
			t.Error("no question was asked")
		}
		if got["Txn"] == 2 && got["Range"] == 1 {
			return
		}
		if got["Txn"] < 2 || got["Range"] < 1 || try == 3 {
			t.Fatalf("a Join of which one answer was lost asked for %v", got)
		}
	}
}

// Who leaves does not queue behind who joins, and no two claims of a name are made
// together.
func TestHowCallsAreGathered(t *testing.T) {
	var e Engine
	e.gather()
	if !e.group.First(&call{leaves: true}) || e.group.First(&call{}) {
		t.Error("who leaves does not go first")
	}
	if e.group.Key(&call{name: "a"}) == e.group.Key(&call{name: "b"}) || e.group.Key(&call{name: "a", leaves: true}) != e.group.Key(&call{name: "a"}) {
		t.Error("names are not told apart, or calls of one are")
	}
}
