package service_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTenThousandCallersWait: a caller that waits costs the server little memory, and every
// place is kept. Most of what one with a connection of its own costs are the buffers and
// stacks of net/http.
func TestTenThousandCallersWait(t *testing.T) {
	t.Parallel()
	const names = 200
	callers := 10_000
	if raced {
		callers = 1000 // the race detector takes many times the memory and the time, so neither is judged
	}
	if testing.Short() {
		callers = 200
	}
	for _, c := range []struct {
		name string
		most int
		wait func(t *testing.T, addr string) (begin func(i int))
	}{
		{"of HTTP/2", 32 << 10, streams},
		{"with a connection each", 64 << 10, connections},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "dir:"+t.TempDir())
			watcher := open(t, p.addr)
			defer watcher.Close()
			for n := range names {
				r, err := http.Post(fmt.Sprintf("http://%s/v1/locks/n%d", p.addr, n), "application/json", strings.NewReader(`{"ttl": "5m"}`))
				if err != nil || r.StatusCode != http.StatusOK {
					t.Fatal(r, err)
				}
				r.Body.Close()
			}
			http.DefaultClient.CloseIdleConnections()
			before := memory(t, p.pid)
			begin := c.wait(t, p.addr)
			var all sync.WaitGroup
			for part := range 20 {
				all.Go(func() {
					for i := part; i < callers; i += 20 {
						begin(i)
					}
				})
			}
			all.Wait()
			waiting := func() (n int) {
				for q, err := range watcher.Queues(t.Context(), "") {
					if err != nil {
						return 0
					}
					n += len(q.Claims) - 1
				}
				return n
			}
			until(t, "they are not in the queues", time.Minute, func() bool { return waiting() == callers })
			each := (memory(t, p.pid) - before) / callers
			t.Logf("a caller that waits costs %d bytes", each)
			if each > c.most && !raced && !testing.Short() { // of few callers little is certain
				t.Errorf("a caller that waits costs %d bytes, want %d at most", each, c.most)
			}
			time.Sleep(12 * time.Second) // longer than a place that nobody renews
			if n := waiting(); n != callers {
				t.Errorf("%d of %d places are left", n, callers)
			}
		})
	}
}

// request is that of one caller.
func request(i int) (path, key, body string) {
	return fmt.Sprintf("/v1/locks/n%d", i%200), fmt.Sprintf("caller-%016d", i), `{"wait": "10m"}`
}

func connections(t *testing.T, addr string) func(int) {
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	return func(i int) {
		path, key, body := request(i)
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)
		}
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
	}
}

func streams(t *testing.T, addr string) func(int) {
	transports := make([]*http.Transport, 20)
	for i := range transports {
		transports[i] = &http.Transport{Protocols: new(http.Protocols)}
		transports[i].Protocols.SetUnencryptedHTTP2(true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
		for _, tr := range transports {
			tr.CloseIdleConnections()
		}
	})
	return func(i int) {
		path, key, body := request(i)
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Idempotency-Key", key)
		all.Go(func() {
			if a, err := transports[i%20].RoundTrip(r); err == nil {
				a.Body.Close()
			}
		})
	}
}

// memory is what a process has in memory now.
func memory(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the system does not say how much memory a process has")
	return 0
}
