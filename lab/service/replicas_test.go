package service_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
)

// TestAServerThatIsKilledLosesNothing: 500 leases and 500 waiters go on with the other
// Server, in their order, and nobody is granted twice. In a short run there are 50 of each.
func TestAServerThatIsKilledLosesNothing(t *testing.T) {
	t.Parallel()
	leases, queues := 500, 100
	const waiting = 5 // clients that wait in each queue
	if testing.Short() {
		leases, queues = 50, 10
	}
	for _, c := range []struct {
		name   string
		strike func(process) error
	}{
		{"killed", func(p process) error { p.Kill(); return nil }},
		{"stopped", process.Halt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := "dir:" + t.TempDir()
			one, two := start(t, store), start(t, store)
			const ttl = 20 * time.Second
			client := func() *leasehold.Client {
				l, err := leasehold.New(open(t, one.addr, two.addr), &leasehold.Options{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return l
			}
			name := func(i int) string { return fmt.Sprint("n", i) }
			holder := client()
			held := make([]*leasehold.Lease, leases)
			for i := range held {
				l, err := holder.Lock(t.Context(), name(i))
				if err != nil {
					t.Fatal(err)
				}
				held[i] = l
			}
			type grant struct {
				queue, client int
				at            int64 // which of all grants
				token         leasehold.Token
				lost          error
			}
			var count atomic.Int64
			grants := make(chan grant, queues*waiting)
			var all sync.WaitGroup
			holds := make([]sync.Mutex, queues) // one is held by two if it cannot be had
			for w := range waiting {
				locks := client()
				for q := range queues {
					all.Go(func() {
						l, err := locks.Lock(t.Context(), name(q))
						if err != nil {
							t.Error(err)
							return
						}
						if !holds[q].TryLock() {
							t.Errorf("%s is held by two", name(q))
						}
						g := grant{queue: q, client: w, at: count.Add(1), token: l.Token()}
						time.Sleep(time.Millisecond)
						holds[q].Unlock()
						g.lost = l.Unlock()
						grants <- g
					})
				}
				until(t, "they are not in the queues", time.Minute, func() bool {
					for q := range queues {
						if line, err := holder.Queue(t.Context(), name(q)); err != nil || len(line.Claims) != w+2 {
							return false
						}
					}
					return true
				})
			}
			// Until its first renewal a claim lives for as long as the other Server is looked for.
			until(t, "waiting claims were not renewed", time.Minute, func() bool {
				for q := range queues {
					line, err := holder.Queue(t.Context(), name(q))
					if err != nil || slices.ContainsFunc(line.Claims, func(c engine.Claim) bool { return c.TTL <= 4*time.Second }) {
						return false
					}
				}
				return true
			})
			if err := c.strike(one); err != nil {
				t.Fatal(err)
			}
			// Longer than the TTL, so that only renewals through the other Server count.
			for end := time.Now().Add(ttl + 5*time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				for i, l := range held {
					if !l.Valid() {
						t.Fatalf("%s was lost: %v", name(i), l.Unlock())
					}
				}
			}
			for i, l := range held {
				if err := l.Unlock(); err != nil {
					t.Errorf("unlock %s: %v", name(i), err)
				}
			}
			all.Wait()
			close(grants)
			next, last := make([]int, queues), make([]leasehold.Token, queues)
			for i := range last {
				last[i] = held[i].Token()
			}
			inOrder := slices.SortedFunc(func(yield func(grant) bool) {
				for g := range grants {
					if !yield(g) {
						return
					}
				}
			}, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
			for _, g := range inOrder {
				if g.client != next[g.queue] || g.token <= last[g.queue] || g.lost != nil {
					t.Errorf("%s: client %d with token %v after %v (%v), want client %d", name(g.queue), g.client, g.token, last[g.queue], g.lost, next[g.queue])
				}
				next[g.queue], last[g.queue] = g.client+1, g.token
			}
			if n := len(inOrder); n != queues*waiting {
				t.Errorf("%d were granted, want %d", n, queues*waiting)
			}
		})
	}
}

// TestAStoppedServerIsLeftSoon: what is asked of a server that is stopped is asked of the other
// one, while the first is still stopped and long before the bound of such a call. What could not
// be given back there is free long before its TTL has passed.
func TestAStoppedServerIsLeftSoon(t *testing.T) {
	t.Parallel()
	store := "dir:" + t.TempDir()
	one, two := start(t, store), start(t, store)
	client := func(addrs ...string) *leasehold.Client {
		c, err := leasehold.New(open(t, addrs...), &leasehold.Options{TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	locks, other := client(one.addr, two.addr), client(two.addr)
	calls := open(t, one.addr, two.addr)
	t.Cleanup(func() { calls.Close() })
	held, err := locks.Lock(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Halt(); err != nil { // until the end of the test
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		held.Unlock() // says that it is not confirmed
		l, err := other.Lock(ctx, "held")
		if err != nil {
			t.Errorf("what was given back is not free: %v", err)
			return
		}
		l.Unlock()
	})
	began := time.Now()
	q := engine.Request{Name: "next", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Minute}
	if _, err := calls.Join(ctx, q); err == nil {
		t.Error("a server that is stopped has answered")
	}
	if c, err := calls.Join(ctx, q); err != nil || c.State != engine.Held {
		t.Errorf("the other server: %v, %v", c, err)
	}
	const bound = 15 * time.Second // of a call whose caller has none
	if took := time.Since(began); took >= bound {
		t.Errorf("it took %v, which is the bound of a call", took)
	}
	all.Wait()
}
