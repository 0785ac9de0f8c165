package engines

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"leasehold"
	"leasehold/elect"
	"leasehold/lab/servers"
)

var idleFor = flag.Duration("elect.idle", 0, "count the requests of 100 candidates with the defaults for so long, and print them")

// 100 idle candidates make at most 3 requests a second with the defaults. Here 40 make as many
// in a time that runs ten times as fast.
func TestIdleCandidatesMakeFewRequests(t *testing.T) {
	t.Parallel() // it waits
	candidates, faster, watched := 40, 10, 12*time.Second
	if *idleFor > 0 {
		candidates, faster, watched = 100, 1, *idleFor
	}
	most := 3 * float64(candidates) / 100 * float64(faster) // in a second
	for _, s := range []struct {
		name  string
		start func(t *testing.T) (addr string)
		proxy func(string) (*servers.Proxy, error)
		url   string
		idle  string // what the client library sends to see whether a connection lives
	}{
		{"queuelock", func(t *testing.T) string { return servers.Redis(t, nil).Addr }, servers.NewProxy, "redis://%s", "PING"},
		// pgx asks a connection that was idle for a second whether it lives, before each call.
		{"pglock", func(t *testing.T) string {
			return servers.Postgres(t, &servers.PostgresOptions{Args: []string{"-c", "max_connections=500"}}).Addr
		}, servers.NewPostgresProxy, "postgres://postgres@%s/postgres", "--"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			proxy, err := s.proxy(s.start(t))
			if err != nil {
				t.Fatal(err)
			}
			defer proxy.Close()
			ctx, end := context.WithCancel(t.Context())
			var standing sync.WaitGroup
			defer func() { end(); standing.Wait() }()
			for i := range candidates {
				eng, err := Open(ctx, fmt.Sprintf(s.url, proxy.Addr))
				if err != nil {
					t.Fatal(err)
				}
				c, err := leasehold.New(eng, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				defer func() { end(); standing.Wait() }()
				e, err := elect.New(c, "leader", elect.Options{
					Value: fmt.Sprint("candidate ", i), TTL: leasehold.DefaultTTL / time.Duration(faster), Look: 75 * time.Second / time.Duration(faster),
				})
				if err != nil {
					t.Fatal(err)
				}
				standing.Go(func() {
					e.Run(ctx, func(ctx context.Context, _ leasehold.Token) error { <-ctx.Done(); return nil })
				})
			}
			// All come at once, and many have to leave the queue again.
			time.Sleep(75 * time.Second / time.Duration(faster))
			for windows := 3; ; windows-- { // one in which a leader is lost to a standstill has more
				began := time.Now()
				proxy.Forget()
				time.Sleep(watched)
				counts, took := proxy.Commands(), time.Since(began)
				all, bound := 0, most*took.Seconds()
				for name, n := range counts {
					if name != s.idle {
						all += n
					}
				}
				t.Logf("%d candidates: %.2f requests a second of %v, %v", candidates, float64(all)/took.Seconds(), took.Round(time.Second), counts)
				if all == 0 || float64(all) > bound && windows == 1 {
					t.Errorf("%d requests, and %.0f are allowed: %v", all, bound, counts)
				}
				if float64(all) <= bound || windows == 1 {
					return
				}
			}
		})
	}
}
