package engines

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"leasehold"
	"leasehold/elect"
	"leasehold/lab/servers"
)

// BenchmarkHandOver measures the time from the end of one process's hold to the beginning of the
// next one's: Unlock to Lock, and Resign to the function of the next leader. Three processes
// take turns, so that the next one waits already. A hold takes 5 ms.
func BenchmarkHandOver(b *testing.B) {
	for name, start := range map[string]func(b *testing.B) (url string){
		"Redis":      func(b *testing.B) string { return "redis://" + servers.Redis(b, nil).Addr },
		"PostgreSQL": func(b *testing.B) string { return servers.Postgres(b, nil).URL("", "") },
		"etcd":       func(b *testing.B) string { return "etcd://" + servers.Etcd(b, nil).Addr },
	} {
		b.Run(name, func(b *testing.B) {
			url := start(b)
			b.Run("lock", func(b *testing.B) { handOver(b, url, locking) })
			b.Run("elect", func(b *testing.B) { handOver(b, url, leading) })
		})
	}
}

func locking(ctx context.Context, c *leasehold.Client, hold func()) error {
	for {
		l, err := c.Lock(ctx, "name")
		if err != nil {
			return err
		}
		hold()
		if err := l.Unlock(); err != nil {
			return err
		}
	}
}

func leading(ctx context.Context, c *leasehold.Client, hold func()) error {
	e, err := elect.New(c, "leader", elect.Options{})
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, _ leasehold.Token) error {
		hold()
		if err := e.Resign(); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// handOver has three processes, so to speak, hold in turn until there were b.N hand-overs, and
// reports the median.
func handOver(b *testing.B, url string, stand func(ctx context.Context, c *leasehold.Client, hold func()) error) {
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var ended time.Time
	var took []time.Duration // the lock guards both
	hold := func() {
		if !ended.IsZero() {
			took = append(took, time.Since(ended))
		}
		if len(took) >= b.N {
			end()
			return
		}
		time.Sleep(5 * time.Millisecond)
		ended = time.Now()
	}
	var all sync.WaitGroup
	for range 3 {
		eng, err := Open(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		c, err := leasehold.New(eng, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		all.Go(func() {
			if err := stand(ctx, c, hold); ctx.Err() == nil {
				b.Error(err)
				end()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us/median")
}
