package redis_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"leasehold/engine/redis"
	"leasehold/lab/servers"
)

// TestWhatAnswersIsNamed: whatever listens at the address, Open ends within its bound
// without a context's help, and says what it found.
func TestWhatAnswersIsNamed(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{TLS: true})
	full := servers.Redis(t, &servers.RedisOptions{TLS: true})
	do(t, full, "CONFIG", "SET", "maxclients", "1") // do is that one
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	silent, ends := listener(t, func(c net.Conn) { io.Copy(io.Discard, c) }), listener(t, func(net.Conn) {})
	for name, c := range map[string]struct{ url, want string }{
		"a web server":       {"redis://" + web.Listener.Addr().String(), "is not a Redis"},
		"silence":            {"redis://" + silent, "has not answered in time: it is not a Redis"},
		"silence, TLS":       {"rediss://" + silent, "does not speak TLS"},
		"silence, plain":     {"redis://" + silent + "?layout=plain", "has not answered in time"},
		"silence, Redisson":  {"redisson://" + silent, "has not answered in time"},
		"silence, Cluster":   {"redis-cluster://" + silent, "in time"},
		"silence, Sentinel":  {"redis-sentinel://" + silent + "/main", "in time"},
		"a Redis, TLS":       {"rediss://" + r.Addr + "?ca=" + r.CAFile, "does not speak TLS"},
		"a TLS port without": {"redis://" + r.TLSAddr, "speaks TLS only"},
		"a full server":      {"redis://" + full.Addr, "raise its maxclients"},
		"a full server, TLS": {"rediss://" + full.TLSAddr + "?ca=" + full.CAFile, "maxclients"},
		"who hangs up":       {"redis://" + ends, "closed the connection"},
		"nobody":             {"redis://" + servers.Nobody, "refused"},
		"a negative array":   {"redis://" + says(t, "*-5\r\n"), "is not a Redis"},
		"a negative string":  {"redis://" + says(t, "$-5\r\n"), "is not a Redis"},
		"an endless array":   {"redis://" + says(t, "*99999999999999\r\n") + "?layout=plain", "is not a Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan error, 1)
			go func() {
				e, err := redis.Open(context.Background(), c.url)
				if err == nil {
					e.Close()
				}
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("it says %v, want %q", err, c.want)
				}
			case <-time.After(30 * time.Second): // six times the bound: this machine may be busy
				t.Error("it hangs")
			}
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := redis.Open(ctx, "redis://"+silent); err == nil || !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("%v", err)
		}
	})
}

// says answers whatever it is sent by the same bytes.
func says(t *testing.T, answer string) string {
	return listener(t, func(c net.Conn) {
		for b := make([]byte, 4096); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			io.WriteString(c, answer)
		}
	})
}

// listener serves each connection by f, and then closes it.
func listener(t *testing.T, f func(net.Conn)) string {
	return servers.Impostor(t, "tcp", func(c net.Conn) {
		defer c.Close()
		f(c)
	})
}
