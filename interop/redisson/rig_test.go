package redisson

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/redis/redissonlock"
	"leasehold/internal/servers"
)

// rig is a server and two Redisson clients on it, which the tests of one release
// share. Each test has names of its own.
type rig struct {
	site
	program *Program
	server  *servers.RedisServer
	java    *Process // with Redisson's default watchdog of 30 s
	brief   *Process // with a watchdog of a second, so that what takes many is soon over
}

const briefWatchdog = time.Second

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
	c, err := leasehold.New(opened(t, url), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func opened(t *testing.T, url string) engine.Engine {
	t.Helper()
	e, err := redissonlock.Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// nameOf is a lock's name that no other test has.
func nameOf(t *testing.T) string { return strings.NewReplacer("/", ":", " ", "_").Replace(t.Name()) }

// locked holds a name, or the test ends.
func locked(t *testing.T, c *leasehold.Client, name string) *leasehold.Lease {
	t.Helper()
	return got(t, asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.Lock(ctx, name) }))
}

// lockResult is how a call of ours ended.
type lockResult struct {
	lease *leasehold.Lease
	err   error
}

// asks begins a call that may have to wait.
func asks(t *testing.T, lock func(context.Context) (*leasehold.Lease, error)) <-chan lockResult {
	t.Helper()
	done := make(chan lockResult, 1)
	ctx := within(t)
	go func() {
		l, err := lock(ctx)
		done <- lockResult{l, err}
	}()
	return done
}

// got waits for a call that must obtain.
func got(t *testing.T, c <-chan lockResult) *leasehold.Lease {
	t.Helper()
	r := <-c // within the bound of its context
	if r.err != nil {
		t.Fatalf("ours: %v", r.err)
	}
	return r.lease
}

// refused says that somebody else holds a name: a call that waits so long (or asks
// once) fails with ErrHeld.
func refused(t *testing.T, c *leasehold.Client, name string, wait time.Duration) {
	t.Helper()
	l, err := c.With(leasehold.LockOptions{Wait: wait}).Lock(within(t), name)
	if err == nil {
		l.Unlock()
		t.Errorf("%s was obtained while somebody else held it", name)
	} else if !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("%s: %v instead of ErrHeld", name, err)
	}
}

func unlocked(t *testing.T, l *leasehold.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
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
