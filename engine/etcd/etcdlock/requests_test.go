package etcdlock

import (
	"fmt"
	"maps"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/internal/servers"
)

func TestUncontendedLockIsTwoRequests(t *testing.T) {
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, &Options{TTL: time.Minute}) // no beat comes in between
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
	server := servers.Etcd(t, nil)
	for _, waiters := range []int{1, 20} {
		t.Run(fmt.Sprint(waiters, " more wait"), func(t *testing.T) {
			w := dial(t, clientv3.Config{}, server.Addr)
			others := start(t, dial(t, clientv3.Config{}, server.Addr).Client, &Options{TTL: time.Minute})
			e := start(t, w.Client, &Options{TTL: time.Minute})
			name := fmt.Sprint("handed over ", waiters)
			holder := joins(t, others, exclusive(name), engine.Held)
			told := joins(t, others, exclusive(name), engine.Waiting) // and tells the holder, which others then need not
			heard := watch(t, e)
			until(t, "the first waiter tells the holder", func() bool {
				e.table.mu.Lock()
				defer e.table.mu.Unlock()
				r, err := w.Get(within(t), "leasehold/note/", clientv3.WithPrefix(), clientv3.WithCountOnly())
				return err == nil && r.Count == 1
			})
			w.counted()
			mine := joins(t, e, exclusive(name), engine.Waiting)
			for range waiters {
				joins(t, others, exclusive(name), engine.Waiting)
			}
			leave(t, others, holder)
			leave(t, others, told)
			hears(t, heard, as(mine, engine.Held))
			leave(t, e, mine)
			got := w.counted()
			sum := 0
			for _, n := range got {
				sum += n
			}
			if got["Txn"] < 2 || got["Txn"] > 3 || got["Range"] != 1 || got["Watch"] > 2 || sum > 6 {
				t.Errorf("a hand-over asked for %v", got)
			}
		})
	}
}

func TestTenThousandLeasesAreOneKeepAlivePerBeat(t *testing.T) {
	const many = 10_000
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, &Options{TTL: 10 * time.Second}) // the etcd lease: 12 s, a beat: 2 s
	claims := make(chan engine.Claim, many)
	work := make(chan int, many)
	for i := range many {
		work <- i
	}
	close(work)
	for range 50 {
		go func() {
			for i := range work {
				c, err := e.Join(t.Context(), exclusive(fmt.Sprint("many/", i)))
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
		rs[i] = engine.Renewal{Name: c.Name, ID: c.ID, Want: 10 * time.Second}
	}
	// Two beats, with a renewal of everything in each.
	asked := func() time.Duration { return e.current().asked }
	last := asked()
	until(t, "a beat", func() bool { return asked() != last })
	w.counted()
	for range 2 {
		last = asked()
		got, err := e.Renew(within(t), rs)
		if err != nil || len(got) != many {
			t.Fatalf("Renew of %d: %d, %v", many, len(got), err)
		}
		for _, c := range got {
			if c.State != engine.Held {
				t.Fatalf("%q is %v", c.Name, c.State)
			}
		}
		until(t, "a beat", func() bool { return asked() != last })
	}
	got := w.counted()
	if got["LeaseKeepAlive"] != 2 || got["Txn"] != 2*many/maxOps {
		t.Errorf("two beats of %d leases asked for %v; want 2 keep-alives and %d transactions", many, got, 2*many/maxOps)
	}
}

// Whoever is refused tells every holder, and there may be many.
func TestWhoIsRefusedTellsManyHoldersInFewRequests(t *testing.T) {
	const many = 100
	server := servers.Etcd(t, nil)
	readers := start(t, dial(t, clientv3.Config{}, server.Addr).Client, &Options{TTL: time.Minute})
	heard := watch(t, readers)
	want := map[engine.ID]bool{}
	for range many {
		want[joins(t, readers, units("read", 1, engine.Max), engine.Held).ID] = true
	}
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, &Options{TTL: time.Minute})
	w.counted()
	r := exclusive("read")
	r.NoWait = true
	joins(t, e, r, engine.Gone)
	for late := time.After(patience); len(want) > 0; {
		select {
		case c := <-heard:
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
