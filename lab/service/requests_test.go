package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engines"
	"leasehold/internal/remote"
	"leasehold/lab/servers"
	"leasehold/service"
)

// TestRemoteLeasesCostNoMoreRequests: 10,000 leases of a client of the service are renewed by as
// many requests to the store as those of a client of the store itself, and by as many to the
// service. Under the race detector, which takes many times the time, there are 1,000, and in a
// short run 300 of a shorter TTL.
func TestRemoteLeasesCostNoMoreRequests(t *testing.T) {
	t.Parallel()
	leases, ttl := 10_000, time.Minute
	switch {
	case testing.Short():
		leases, ttl = 300, 20*time.Second
	case raced:
		leases = 1000
	}
	store := servers.Redis(t, nil)
	opened := func(p *servers.Proxy) engine.Engine {
		e, err := engines.Open(t.Context(), "redis://"+p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	ways := [2]*servers.Proxy{servers.ProxyTo(t, store.Addr), servers.ProxyTo(t, store.Addr)}
	s, err := service.New(opened(ways[1]), nil)
	if err != nil {
		t.Fatal(err)
	}
	var renewals atomic.Int64
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == remote.PathRenew {
			renewals.Add(1)
		}
		s.ServeHTTP(w, r)
	}))
	h.Config.Protocols = new(http.Protocols)
	h.Config.Protocols.SetHTTP1(true)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	t.Cleanup(func() {
		s.Drain()
		h.CloseClientConnections()
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var held [2][]*leasehold.Lease
	began := time.Now()
	for i, eng := range []engine.Engine{opened(ways[0]), open(t, strings.TrimPrefix(h.URL, "http://"))} {
		c, err := leasehold.New(eng, &leasehold.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		held[i] = make([]*leasehold.Lease, leases)
		var all sync.WaitGroup
		for part := range 50 {
			all.Go(func() {
				for n := part; n < leases; n += 50 {
					l, err := c.Lock(t.Context(), fmt.Sprint("way", i, "/", n))
					if err != nil {
						t.Error(err)
						return
					}
					held[i][n] = l
				}
			})
		}
		all.Wait()
		t.Logf("way %d: %v", i, time.Since(began))
		if t.Failed() {
			t.FailNow()
		}
	}
	time.Sleep(ttl / 3) // all have had their first renewal, which raises them to the full TTL
	ways[0].Forget()
	ways[1].Forget()
	renewals.Store(0)
	time.Sleep(2 * ttl / 3)
	direct, through, asked := ways[0].Commands()["EVALSHA"], ways[1].Commands()["EVALSHA"], int(renewals.Load())
	t.Logf("%d leases, in two intervals of renewal: %d requests to Redis directly, %d through the service, %d to the service", leases, direct, through, asked)
	for i := range held {
		for _, l := range held[i] {
			if !l.Valid() {
				t.Fatalf("way %d: a lease was lost: %v", i, context.Cause(l.Context()))
			}
		}
	}
	if direct == 0 || asked == 0 {
		t.Fatal("nothing was renewed")
	}
	// A beat more or less falls into the time that is looked at.
	if most := direct + max(direct/5, 5); through > most || asked > most {
		t.Errorf("%d requests to Redis through the service, and %d to the service: %d are the most", through, asked, most)
	}
}
