package queuelock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold"
	"leasehold/engine"
)

// The floor: SET NX PX and a compare-and-delete script, on the same
// client, in the same run.
func barePair(ctx context.Context, b *testing.B, c rueidis.Client, cad *rueidis.Lua, key string) {
	if err := c.Do(ctx, c.B().Set().Key(key).Value("0123456789abcdef0123456789abcdef").Nx().PxMilliseconds(3000).Build()).Error(); err != nil {
		b.Error(err)
	}
	if n, err := cad.Exec(ctx, c, []string{key}, []string{"0123456789abcdef0123456789abcdef"}).AsInt64(); err != nil || n != 1 {
		b.Error(n, err)
	}
}

const compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

func enginePair(ctx context.Context, b *testing.B, e *Engine, name string) {
	r := exclusive(name)
	c, err := e.Join(ctx, r)
	if err != nil || c.State != engine.Held {
		b.Error(c, err)
	}
	cs, err := e.Leave(ctx, []engine.Claim{c})
	if err != nil || len(cs) != 1 || cs[0].State != engine.Held {
		b.Error(cs, err)
	}
}

// BenchmarkUncontended: pairs of one goroutine and of 64 with names of their
// own, alternating with the floor so that noise hits both alike. "x floor" is
// time for one goroutine and throughput for 64.
func BenchmarkUncontended(b *testing.B) {
	r := redis(b, nil)
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			e := newEngine(b, r.Addr)
			c := connect(b, r.Addr)
			cad := rueidis.NewLuaScript(compareAndDelete)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var highWater, ours []time.Duration
			const rounds = 20
			pairs := max(1, b.N/rounds/goroutines)
			for range rounds {
				highWater = append(highWater, measure(goroutines, pairs, func(i int) { barePair(ctx, b, c, cad, fmt.Sprint("floor", i)) }))
				ours = append(ours, measure(goroutines, pairs, func(i int) { enginePair(ctx, b, e, fmt.Sprint("ours", i)) }))
			}
			f, o := median(highWater), median(ours)
			b.ReportMetric(float64(f)/float64(pairs*goroutines), "floor-ns/pair")
			b.ReportMetric(float64(o)/float64(pairs*goroutines), "ours-ns/pair")
			b.ReportMetric(float64(o)/float64(f), "time-x-floor")
			b.ReportMetric(float64(f)/float64(o), "rate-x-floor")
		})
	}
}

// BenchmarkRestartDelay: the same pairs with and without, in turns.
func BenchmarkRestartDelay(b *testing.B) {
	r := redis(b, nil)
	on, off := open(b, delaying(r.Addr, 3*time.Second)), open(b, "redis://"+r.Addr)
	if _, err := eventually(b, func(ctx context.Context) (engine.Claim, error) { return on.Join(ctx, exclusive("first")) }); err != nil {
		b.Fatal(err)
	}
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			var without, with []time.Duration
			const rounds = 20
			pairs := max(1, b.N/rounds/goroutines)
			for range rounds {
				without = append(without, measure(goroutines, pairs, func(i int) { enginePair(b.Context(), b, off, fmt.Sprint("off", i)) }))
				with = append(with, measure(goroutines, pairs, func(i int) { enginePair(b.Context(), b, on, fmt.Sprint("on", i)) }))
			}
			n, o := median(without), median(with)
			b.ReportMetric(float64(n)/float64(pairs*goroutines), "off-ns/pair")
			b.ReportMetric(float64(o)/float64(pairs*goroutines), "on-ns/pair")
			b.ReportMetric(float64(o)/float64(n), "x-off")
		})
	}
}

func measure(goroutines, pairs int, pair func(i int)) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for i := range goroutines {
		all.Go(func() {
			for range pairs {
				pair(i)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// BenchmarkClient is the same with package leasehold on top.
func BenchmarkClient(b *testing.B) {
	r := redis(b, nil)
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			locks, err := leasehold.New(open(b, "redis://"+r.Addr), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer locks.Close()
			pairs := max(1, b.N/goroutines)
			d := measure(goroutines, pairs, func(i int) {
				l, err := locks.Lock(b.Context(), fmt.Sprint("client", i))
				if err != nil {
					b.Error(err)
					return
				}
				if err := l.Unlock(); err != nil {
					b.Error(err)
				}
			})
			b.ReportMetric(float64(d)/float64(pairs*goroutines), "ns/pair")
		})
	}
}

// BenchmarkHandOver relays one name among eight clients and, for the floor, a
// token by LPUSH and BLPOP among eight.
func BenchmarkHandOver(b *testing.B) {
	r := redis(b, nil)
	const clients = 8
	b.Run("BLPOP", func(b *testing.B) {
		var turns atomic.Int64
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		first := connect(b, r.Addr)
		for range clients {
			c := connect(b, r.Addr)
			all.Go(func() {
				for ctx.Err() == nil {
					err := c.Do(ctx, c.B().Blpop().Key("relay").Timeout(0.2).Build()).Error()
					if err != nil {
						continue
					}
					if turns.Add(1) >= int64(b.N) {
						cancel()
					}
					c.Do(context.Background(), c.B().Lpush().Key("relay").Element("token").Build())
				}
			})
		}
		b.ResetTimer()
		first.Do(ctx, first.B().Lpush().Key("relay").Element("token").Build())
		all.Wait()
	})
	b.Run("queuelock", func(b *testing.B) {
		var turns atomic.Int64
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		var workers []func()
		for range clients {
			e := newEngine(b, r.Addr)
			held := make(chan engine.Claim, 1<<16)
			ready := make(chan struct{})
			var once sync.Once
			all.Go(func() {
				e.Watch(ctx, func(c engine.Claim) {
					once.Do(func() { close(ready) })
					if c.State == engine.Held {
						select {
						case held <- c:
						default:
						}
					}
				})
			})
			<-ready
			workers = append(workers, func() {
				for ctx.Err() == nil {
					r := exclusive("relay")
					c, err := e.Join(ctx, r)
					if err != nil {
						continue
					}
					for c.State == engine.Waiting {
						select {
						case n := <-held:
							if n.ID == r.ID {
								c = n
							}
						case <-ctx.Done():
							return
						}
					}
					if turns.Add(1) >= int64(b.N) {
						cancel()
						return
					}
					e.Leave(ctx, []engine.Claim{c})
				}
			})
		}
		b.ResetTimer()
		for _, w := range workers {
			all.Go(w)
		}
		all.Wait()
	})
}

// BenchmarkRenew renews 10,000 held leases.
func BenchmarkRenew(b *testing.B) {
	r := redis(b, nil)
	e := newEngine(b, r.Addr)
	var rs []engine.Renewal
	for i := range 10_000 {
		q := exclusive(fmt.Sprint("lease", i))
		q.WaitTTL = time.Minute
		join(b, e, q)
		rs = append(rs, engine.Renewal{Name: q.Name, ID: q.ID, Want: time.Minute})
	}
	b.ResetTimer()
	for range b.N {
		if cs, err := e.Renew(b.Context(), rs); err != nil || len(cs) != len(rs) {
			b.Fatal(len(cs), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rs)), "ns/lease")
}
