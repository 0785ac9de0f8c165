package pglock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
)

// BenchmarkUncontended is a lock and unlock that nobody else wants, beside two
// statements of one row each on the same pool: what the server, its disk and pgx cost.
func BenchmarkUncontended(b *testing.B) {
	url := database(b)
	e := open(b, url)
	pool := connect(b, url)
	do(b, pool, `CREATE TABLE floor (k text PRIMARY KEY, v integer)`)
	do(b, pool, `INSERT INTO floor VALUES ('a', 0)`)
	b.Run("two statements", func(b *testing.B) {
		for b.Loop() {
			for range 2 {
				if _, err := pool.Exec(b.Context(), `UPDATE floor SET v = v + 1 WHERE k = $1`, "a"); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("lock and unlock", func(b *testing.B) {
		for b.Loop() {
			c, err := e.Join(b.Context(), exclusive("a"))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := e.Leave(b.Context(), []engine.Claim{c}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHandOver is a name that eight clients want all the time, beside a plain
// advisory lock, which has no lease and no token and pins a connection for each.
func BenchmarkHandOver(b *testing.B) {
	const clients = 8
	// relay has every client take turns until n hand-overs are done.
	relay := func(b *testing.B, turn func(client int)) {
		turns := make(chan struct{}, b.N)
		for range b.N {
			turns <- struct{}{}
		}
		close(turns)
		var all sync.WaitGroup
		b.ResetTimer()
		for i := range clients {
			all.Go(func() {
				for range turns {
					turn(i)
				}
			})
		}
		all.Wait()
	}
	url := database(b)
	pool := connect(b, url+"&pool_max_conns=8")
	b.Run("advisory lock", func(b *testing.B) {
		relay(b, func(int) {
			conn, err := pool.Acquire(b.Context())
			if err == nil {
				_, err = conn.Exec(b.Context(), "SELECT pg_advisory_lock(1)")
			}
			if err == nil {
				_, err = conn.Exec(b.Context(), "SELECT pg_advisory_unlock(1)")
			}
			if err != nil {
				b.Error(err)
			}
			conn.Release()
		})
	})
	b.Run("line", func(b *testing.B) {
		var engines [clients]*Engine
		var received [clients]<-chan engine.Claim
		for i := range engines {
			engines[i] = open(b, url)
			received[i] = watch(b, engines[i])
		}
		relay(b, func(i int) {
			r := exclusive("a")
			r.WaitTTL = time.Minute
			c, err := engines[i].Join(b.Context(), r)
			for err == nil && c.State == engine.Waiting {
				if n := <-received[i]; n.ID == c.ID {
					c.State = n.State
				}
			}
			if err == nil {
				_, err = engines[i].Leave(b.Context(), []engine.Claim{c})
			}
			if err != nil {
				b.Error(err)
			}
		})
	})
}

// BenchmarkSlowDisk is hand-overs of one name and of 16 names, each between two clients,
// where a sync takes 4 ms: commit_delay has the server sleep before each. Commits of
// different names share syncs, and none of them waits for the notification of another.
//
//	go test -run - -bench SlowDisk -benchtime 10s ./engine/postgres/pglock
func BenchmarkSlowDisk(b *testing.B) {
	url := server(b, "-c", "commit_delay=4000", "-c", "commit_siblings=0", "-c", "max_connections=300").URL("postgres", "postgres")
	for _, names := range []int{1, 16} {
		b.Run(fmt.Sprint(names), func(b *testing.B) {
			var clients []*leasehold.Client
			for range 2 * names {
				e, err := Open(b.Context(), url)
				if err != nil {
					b.Fatal(err)
				}
				c, err := leasehold.New(e, &leasehold.Options{NoLocalHandoff: true})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { c.Close() })
				clients = append(clients, c)
			}
			var all sync.WaitGroup
			var done atomic.Int64
			b.ResetTimer()
			for i, c := range clients {
				name := fmt.Sprint("slow", i/2)
				all.Go(func() {
					for done.Add(1) <= int64(b.N) {
						if err := c.Do(b.Context(), name, func(context.Context, *leasehold.Lease) error { return nil }); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hand-overs/s")
		})
	}
}
