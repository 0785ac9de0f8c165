package redislock

import (
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/internal/servers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	r := redis(t, &servers.RedisOptions{Durable: true})
	enginetest.Run(t, conformance("redislock", r, "redis://"))
}

// conformance is the harness of engines behind a proxy each, on one server.
func conformance(name string, r *servers.RedisServer, scheme string) enginetest.Harness {
	var mu sync.Mutex
	proxies := map[engine.Engine]*servers.Proxy{}
	return enginetest.Harness{
		Name:      name,
		Committed: "../../docs/guarantees",
		New: func(t testing.TB) engine.Engine {
			teach(t, r)
			p := unlabelled(func() *servers.Proxy { return servers.ProxyTo(t, r.Addr) })
			url, query, _ := strings.Cut(scheme, "?")
			e := open(t, url+p.Addr+"/?"+query)
			mu.Lock()
			defer mu.Unlock()
			proxies[e] = p
			return e
		},
		Restart: func(t testing.TB) {
			if err := r.Restart(false); err != nil {
				t.Fatal(err)
			}
			teach(t, r)
		},
		Forget: func(t testing.TB) {
			if _, err := r.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
		},
		Kill: func(t testing.TB, e engine.Engine) { kill(e) },
		LoseReply: func(t testing.TB, e engine.Engine) {
			mu.Lock()
			defer mu.Unlock()
			proxies[e].LoseReply("EVALSHA", "EVAL")
		},
		CountKeys: func(t testing.TB) int { return lasting(t, r) },
	}
}

// unlabelled runs f without the labels by which the suite knows the goroutines
// of an engine: a proxy is none.
func unlabelled[T any](f func() T) T {
	done := make(chan T)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		done <- f()
	}()
	return <-done
}

// open opens a URL whose path may be empty.
func open(t testing.TB, url string) engine.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// kill ends a client as the death of its process would.
func kill(e engine.Engine) {
	switch e := e.(type) {
	case *Engine:
		e.client.Close()
	case *Plain:
		e.client.Close()
	}
}

// teach loads every script, so that no test's one lost answer is the one that
// says the script is unknown.
func teach(t testing.TB, r *servers.RedisServer) {
	t.Helper()
	s := newScripts()
	p := newPlainScripts()
	for _, one := range []script{s.join, s.leave, s.renew, s.evict, s.read, p.join, p.leave, p.renew, p.evict, p.read} {
		if _, err := r.Do("SCRIPT", "LOAD", one.text); err != nil {
			t.Fatal(err)
		}
	}
}

// lasting counts keys that do not go by themselves within a day.
func lasting(t testing.TB, r *servers.RedisServer) (n int) {
	t.Helper()
	v, err := r.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range v.([]any) {
		v, err := r.Do("TTL", key.(string))
		if err != nil {
			t.Fatal(err)
		}
		if ttl := v.(int64); ttl == -1 || ttl > 24*3600 {
			n++
		}
	}
	return n
}
