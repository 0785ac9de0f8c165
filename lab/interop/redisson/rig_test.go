package redisson

import (
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/redis"
	"leasehold/engine/redis/redissonlock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// rig is a server and two Redisson clients on it, which the tests of one release
// share. Each test has names of its own.
type rig struct {
	site
	program *Program
	server  *servers.RedisServer
	java    *Process // with Redisson's default watchdog of 30 s
	brief   *Process // with a brief watchdog, so that what takes many is soon over
}

// briefWatchdog is more than a busy machine stops a program for.
const briefWatchdog = 6 * time.Second

func newRig(t *testing.T, release string) *rig {
	t.Helper()
	r := &rig{program: built(t, release), server: servers.Redis(t, nil)}
	r.site = site{nodes: []*servers.RedisServer{r.server}, at: "redisson://" + r.server.Addr}
	addrs := []string{r.server.Addr}
	r.java = started(t, r.program, Options{Addrs: addrs})
	r.brief = started(t, r.program, Options{Addrs: addrs, Watchdog: briefWatchdog})
	return r
}

// client is ours, with plain locks.
func (r *rig) client(t *testing.T, o *leasehold.Options) *leasehold.Client {
	t.Helper()
	return client(t, r.url(redissonlock.Lock), o)
}

// client is one of ours, for the length of a test.
func client(t *testing.T, url string, o *leasehold.Options) *leasehold.Client {
	t.Helper()
	return it.Client(t, opened(t, url), o)
}

func opened(t *testing.T, url string) engine.Engine {
	t.Helper()
	e, err := redis.Open(it.Within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// locked holds a name, or the test ends.
func locked(t *testing.T, c *leasehold.Client, name string) *leasehold.Lease {
	t.Helper()
	return it.Got(t, it.Lock(t, c, name))
}

// do is a command of an administrator.
func (r *rig) do(t *testing.T, args ...string) any {
	t.Helper()
	v, err := r.server.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}
