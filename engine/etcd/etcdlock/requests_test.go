package etcdlock

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

func TestUncontendedLockIsTwoRequests(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil) // no renewal interval comes in between
	w.counted()
	for range 10 {
		leave(t, e, joins(t, e, exclusive("a"), engine.Held))
	}
	if got, want := w.counted(), map[string]int{"Txn": 20}; !maps.Equal(got, want) {
		t.Errorf("ten locks and unlocks asked for %v, want %v", got, want)
	}
}

// A hand-over is the Join, the watch of the claim ahead, a look at what it missed,
// the look when it fires, and the Leave; the library also says that the watch may
// end. Whoever else waits makes no difference.
func TestHandOverIsFiveRequestsHoweverManyWait(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	for _, waiters := range []int{1, 20} {
		t.Run(fmt.Sprint(waiters, " more wait"), func(t *testing.T) {
			w := dial(t, clientv3.Config{}, server.Addr)
			others := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
			e := start(t, w.Client, nil)
			received := watch(t, e)
			// Where the machine was late, more is asked for: then another hand-over is counted.
			for attempt := 1; ; attempt++ {
				name := fmt.Sprintf("handed over %d/%d", waiters, attempt)
				got := handsOver(t, e, others, w, received, name, waiters)
				sum := 0
				for _, n := range got {
					sum += n
				}
				if got["Txn"] >= 2 && got["Txn"] <= 3 && got["Range"] == 1 && got["Watch"] <= 2 && sum <= 6 {
					return
				}
				if got["Txn"] < 2 || attempt == 5 {
					t.Fatalf("a hand-over asked for %v", got)
				}
			}
		})
	}
}

// handsOver returns what was asked for by w, the client of e, while a claim of e was handed over
// and others waited behind it.
func handsOver(t *testing.T, e, others *Engine, w *wire, received <-chan engine.Claim, name string, waiters int) map[string]int {
	t.Helper()
	holder := joins(t, others, exclusive(name), engine.Held)
	notified := joins(t, others, exclusive(name), engine.Waiting) // and tells the holder, which others then need not
	until(t, "the first waiter tells the holder", func() bool {
		e.table.mu.Lock()
		defer e.table.mu.Unlock()
		r, err := w.Get(within(t), "leasehold/note/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == 1
	})
	w.counted()
	mine := joins(t, e, exclusive(name), engine.Waiting)
	var rest []engine.Claim
	for range waiters {
		rest = append(rest, joins(t, others, exclusive(name), engine.Waiting))
	}
	leave(t, others, holder)
	leave(t, others, notified)
	receives(t, received, as(mine, engine.Held))
	leave(t, e, mine)
	got := w.counted()
	for _, c := range rest {
		leave(t, others, c)
	}
	return got
}

func TestTenThousandLeasesAreOneKeepAlivePerBeat(t *testing.T) {
	t.Parallel() // with fewer it mostly waits
	many := testutil.Sized(10_000, 1000)
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	const ttl = 10 * time.Second // the etcd lease: 12 s, a renewal interval: 2 s
	claims := make(chan engine.Claim, many)
	work := make(chan int, many)
	for i := range many {
		work <- i
	}
	close(work)
	for range 50 {
		go func() {
			for i := range work {
				c, err := e.Join(t.Context(), lasting(exclusive(fmt.Sprint("many/", i)), ttl))
				if err != nil {
					t.Error(err)
				}
				claims <- c
			}
		}()
	}
	rs := make([]engine.Renewal, many)
	for i := range rs {
		c := <-claims
		rs[i] = engine.Renewal{Name: c.Name, ID: c.ID, Want: ttl}
	}
	// Two beats, with a renewal of everything in each. Where the machine was late, requests were
	// made again: then too many say nothing.
	s := e.table.get(rs[0].ID).class.Session
	asked := func() time.Duration { return e.current(s).asked }
	beat := func() {
		t.Helper()
		last := asked()
		until(t, "a renewal interval", func() bool { return asked() != last })
	}
	for attempt := 1; ; attempt++ {
		beat()
		began := boottime.Now()
		w.counted()
		for range 2 {
			got, err := e.Renew(within(t), rs)
			if err != nil || len(got) != many {
				t.Fatalf("Renew of %d: %d, %v", many, len(got), err)
			}
			for _, c := range got {
				if c.State != engine.Held {
					t.Fatalf("%q is %v", c.Name, c.State)
				}
			}
			beat()
		}
		got := w.counted()
		beats := int((boottime.Now() - began) / s.renewalInterval)
		most := beats + 1 // in so much time
		if got["LeaseKeepAlive"] >= 2 && got["LeaseKeepAlive"] <= most && got["Txn"] == 2*many/maxOps {
			return
		}
		tooFew := got["LeaseKeepAlive"] < 2 || got["Txn"] < 2*many/maxOps
		if tooFew || attempt == 5 {
			t.Fatalf("two beats of %d leases asked for %v; want from 2 to %d keep-alives and %d transactions", many, got, most, 2*many/maxOps)
		}
	}
}

// Whoever is refused tells every holder, and there may be many.
func TestWhoIsRefusedTellsManyHoldersInFewRequests(t *testing.T) {
	t.Parallel()
	const many = 100
	server := servers.Etcd(t, nil)
	readers := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, readers)
	want := map[engine.ID]bool{}
	for range many {
		want[joins(t, readers, permits("read", 1, engine.Max), engine.Held).ID] = true
	}
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	w.counted()
	r := exclusive("read")
	r.NoWait = true
	joins(t, e, r, engine.Gone)
	for late := time.After(patience); len(want) > 0; {
		select {
		case c := <-received:
			if c.Contended {
				delete(want, c.ID)
			}
		case <-late:
			t.Fatalf("%d of %d were not told", len(want), many)
		}
	}
	if got := w.counted(); got["Txn"] > 1+(many+atOnce-1)/atOnce {
		t.Errorf("to be refused beside %d holders asked for %v", many, got)
	}
}

// What was ever in a range etcd passes over until it is compacted. So a name must not
// have a key for each claim that it ever had.
func TestNameThatWasLockedOftenHasFewKeys(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	for range 3 {
		held := joins(t, e, exclusive("often"), engine.Held)
		waits := []engine.Claim{join(t, e, exclusive("often")), join(t, e, exclusive("often"))}
		leave(t, e, held)
		for _, c := range waits {
			leave(t, e, c)
		}
	}
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	keys := map[string]bool{}
	last, err := admin.Put(ctx, "last", "")
	if err != nil {
		t.Fatal(err)
	}
	for r := range admin.Watch(ctx, "", clientv3.WithFromKey(), clientv3.WithRev(1)) {
		for _, event := range r.Events {
			if strings.HasPrefix(string(event.Kv.Key), "leasehold/line/often") {
				keys[string(event.Kv.Key)] = true
			}
		}
		if r.Header.Revision >= last.Header.Revision && len(r.Events) > 0 && r.Events[len(r.Events)-1].Kv.ModRevision == last.Header.Revision {
			break
		}
	}
	if len(keys) != 3 {
		t.Errorf("nine claims, three at a time, had %d keys", len(keys))
	}
	if e.table.mu.Lock(); len(e.table.m.Claims)+len(e.table.keyed)+len(e.table.slots) > 0 {
		t.Errorf("remembered of claims that have left: %v, %v, %v", e.table.m.Claims, e.table.keyed, e.table.slots)
	}
	e.table.mu.Unlock()
}

// A key that is used again is another claim: who waits for the one before is not
// to take it for that.
func TestKeyIsUsedAgain(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	t.Run("and a renewal says that its first claim stands", func(t *testing.T) {
		first := joins(t, other, exclusive("a"), engine.Held)
		mine := joins(t, e, exclusive("a"), engine.Waiting)
		if got := renew(t, e, mine); got.State != engine.Waiting {
			t.Fatalf("void: it is %v", got.State)
		}
		leave(t, other, first)
		joins(t, other, exclusive("a"), engine.Waiting)
		if got := renew(t, e, mine); got.State != engine.Held {
			t.Errorf("whom it waited for has left, and it is %v", got.State)
		}
	})
	t.Run("and a look at what a watch missed says so", func(t *testing.T) {
		w := dial(t, clientv3.Config{}, server.Addr)
		e := start(t, w.Client, nil)
		received := watch(t, e)
		first := joins(t, other, exclusive("b"), engine.Held)
		w.before("Watch", func() {
			leave(t, other, first)
			joins(t, other, exclusive("b"), engine.Waiting)
		})
		receives(t, received, as(joins(t, e, exclusive("b"), engine.Waiting), engine.Held))
	})
	t.Run("and a late Leave of a Join that was not answered ends the next claim", func(t *testing.T) {
		// Of its own: a claim of another test may have something sent yet, which would be held back instead.
		w := dial(t, clientv3.Config{}, server.Addr)
		other := start(t, w.Client, nil)
		arrive := w.holdBack()
		r := exclusive("c")
		if _, err := other.Join(within(t), r); err == nil {
			t.Fatal("void: the Join was answered")
		}
		unanswered := other.table.get(r.ID)
		l := &left{got: engine.Claim{Name: r.Name, ID: r.ID}, key: unanswered.key, value: unanswered.value, client: other.name}
		leave(t, other, engine.Claim{Name: r.Name, ID: r.ID})
		until(t, "the engine has done with it", func() bool { return other.table.get(r.ID) == nil })
		if err := arrive(); err != nil {
			t.Fatal(err)
		}
		next := joins(t, other, exclusive("c"), engine.Held)
		if other.table.get(next.ID).key != unanswered.key {
			t.Fatal("void: it has another key")
		}
		if err := other.leaveAll(within(t), []*left{l}); err != nil {
			t.Fatal(err)
		}
		if got := renew(t, other, next); got.State != engine.Held {
			t.Errorf("the next claim is %v", got.State)
		}
	})
	t.Run("and a notification to its first claim is taken for its own", func(t *testing.T) {
		r := exclusive("d")
		first := joins(t, other, r, engine.Held)
		key := other.table.get(r.ID).key
		leave(t, other, first)
		next := joins(t, other, exclusive("d"), engine.Held)
		c := other.table.get(next.ID)
		if c.key != key {
			t.Fatal("void: it has another key")
		}
		other.receive(&mvccpb.KeyValue{Key: []byte(other.keys.notification(other.name, key)), Value: []byte(text(revoked, first.Ticket))})
		other.table.mu.Lock()
		defer other.table.mu.Unlock()
		if !c.Phase.Holds() {
			t.Errorf("the next claim is in phase %v", c.Phase)
		}
	})
}

// Many callers share transactions; each is answered for itself.
func TestManyCallersShareTransactions(t *testing.T) {
	t.Parallel()
	const callers, each = 64, 20
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	w.counted()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range each {
				c, err := e.Join(within(t), exclusive(fmt.Sprint("own ", i)))
				if err != nil || c.State != engine.Held {
					t.Errorf("Join: %v, %v", c.State, err)
					return
				}
				got, err := e.Leave(within(t), []engine.Claim{c})
				if err != nil || got[0].State != engine.Held {
					t.Errorf("Leave: %v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	if got := w.counted()["Txn"]; got > callers*each {
		t.Errorf("%d locks and unlocks by %d callers were %d transactions", callers*each, callers, got)
	}
	nobody(t, w)
}

// What is refused for one caller's sake is no other's affair.
func TestOneOfAGroupIsRefused(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e.group.Many = 0 // as if many callers were about
	session := now(e).id
	rs := make([]engine.Request, 20)
	for i := range rs {
		rs[i] = exclusive(fmt.Sprint("of many ", i))
	}
	// One is to live by a lease that an attempt before had made, and that has ended.
	rs[7].Detached = true
	lease, _, err := e.grant(within(t), 60, nil)
	if err != nil {
		t.Fatal(err)
	}
	expected(t, e, &rs[7]).Session = int64(lease)
	if _, err := admin.Revoke(within(t), lease); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, r := range rs {
		all.Go(func() {
			if c, err := e.Join(within(t), r); err != nil || c.State != engine.Held {
				t.Errorf("Join: %v, %v", c.State, err)
			}
		})
	}
	all.Wait()
	if now(e).id != session {
		t.Error("the others took their session for ended")
	}
}

func TestManyDetachedClaimsShareKeepAlives(t *testing.T) {
	t.Parallel()
	const claims = 150
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	first(e).end() // else its beat may open a stream too; the lease lasts 72 s
	rs := make([]engine.Renewal, claims)
	for i := range rs {
		r := exclusive(fmt.Sprint("detached ", i))
		r.Detached, r.WaitTTL = true, time.Minute
		joins(t, e, r, engine.Held)
		rs[i] = engine.Renewal{Name: r.Name, ID: r.ID, Want: time.Minute}
	}
	// It ends between the look at its key and the keep-alive.
	w.before("LeaseKeepAlive", func() {
		if _, err := admin.Revoke(within(t), e.table.get(rs[7].ID).lease()); err != nil {
			t.Error(err)
		}
	})
	opened := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.streams
	}
	before := opened()
	got, err := e.Renew(within(t), rs)
	if err != nil || len(got) != claims {
		t.Fatalf("Renew of %d: %d, %v", claims, len(got), err)
	}
	for _, c := range got {
		want := engine.Held
		if c.ID == rs[7].ID {
			want = engine.Gone
		}
		if c.State != want {
			t.Errorf("%q is %v, want %v", c.Name, c.State, want)
		}
	}
	if n := opened() - before; n != 2 {
		t.Errorf("to keep %d leases alive took %d streams, want one for each hundred", claims, n)
	}
}

// Two claims of one revision would have no order.
func TestClaimsOfANameAreNotMadeTogether(t *testing.T) {
	t.Parallel()
	const callers = 20
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e.group.Many = 0 // as if many callers were about
	got := make(chan engine.Claim, callers)
	for range callers {
		go func() {
			c, err := e.Join(within(t), exclusive("a"))
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
	}
	tickets, held := map[uint64]bool{}, 0
	for range callers {
		c := <-got
		tickets[c.Ticket] = true
		if c.State == engine.Held {
			held++
		}
	}
	if len(tickets) != callers || held != 1 {
		t.Errorf("%d claims have %d tickets, and %d hold", callers, len(tickets), held)
	}
}
