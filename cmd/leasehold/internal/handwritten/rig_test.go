package handwritten_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold"
	"leasehold/cmd/leasehold/internal/handwritten"
	"leasehold/engines"
	"leasehold/lab/servers"
)

// These are the schedules of docs/from-your-lock.md that `leasehold demo` does not play.
// Each strikes at an exact moment, by a proxy that sees a command before the server does.

const (
	name     = "stock:42"
	expiry   = time.Second
	patience = 30 * time.Second
)

// within ends with the test, or when something hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// soon ends after so many expiries: long enough for each lock that is not lost for ever.
func soon(t *testing.T, expiries time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), expiries*expiry)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, addr string) rueidis.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		ConnWriteTimeout: patience}) // for an answer, too, which a proxy may hold back
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ours is leasehold on a server, with the TTL that the hand-written locks have.
func ours(t *testing.T, url string) *leasehold.Client { return oursTTL(t, url, expiry) }

func oursTTL(t *testing.T, url string, ttl time.Duration) *leasehold.Client {
	eng, err := engines.Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := leasehold.New(eng, &leasehold.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

func lock(t *testing.T, who string, l handwritten.Lock) {
	t.Helper()
	if err := l.Lock(within(t)); err != nil {
		t.Fatalf("%s: %v", who, err)
	}
}

func hold(t *testing.T, who string, locks *leasehold.Client) *leasehold.Lease {
	t.Helper()
	l, err := locks.Lock(within(t), name)
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	return l
}

func unlock(t *testing.T, who string, l interface{ Unlock() error }) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("%s: %v", who, err)
	}
}

// nobodyElse requires that the name is held.
func nobodyElse(t *testing.T, locks *leasehold.Client) {
	t.Helper()
	if _, err := locks.TryLock(within(t), name); !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("a third one: %v, want ErrHeld", err)
	}
}

// dies cuts a client off for good, as the death of its process would.
func dies(p *servers.Proxy) {
	p.Refuse(true)
	p.Reset()
}

// A holder of ours that dies frees the name after its TTL, whoever else tries meanwhile.
func oursAfterADeath(t *testing.T, r *servers.RedisServer) {
	way := servers.ProxyTo(t, r.Addr)
	const ttl = 3 * time.Second // of A: the third one comes within it
	a, b := oursTTL(t, "redis://"+way.Addr, ttl), oursTTL(t, "redis://"+r.Addr, ttl)
	hold(t, "A", a)
	dies(way)
	nobodyElse(t, b)
	unlock(t, "B", hold(t, "B", b))
}
