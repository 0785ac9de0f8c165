package redissonlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

func TestClockSteps(t *testing.T) { locks.ClockSteps(t) }

func TestClockStepsReadWrite(t *testing.T) {
	k := readWrite
	k.Open = func(ctx context.Context, url string) (engine.Engine, error) {
		return Open(ctx, "redisson"+strings.TrimPrefix(url, "redis")+"?kind=readwrite&watchdog=24h")
	}
	k.ClockSteps(t)
}

// TestStepBackEndsDeadReaders: neither their own deadlines nor the lock's, which all
// readers share, stay an hour ahead.
func TestStepBackEndsDeadReaders(t *testing.T) {
	t.Parallel()
	clock := servers.ShiftedClock(t)
	r := servers.Redis(t, &servers.RedisOptions{Env: clock.Env()})
	e := readWrite.Opened(t, "redis://"+r.Addr)
	q := reader("a")
	q.WaitTTL = time.Second
	dead := join(t, e, q)
	q = reader("a")
	q.WaitTTL = 3 * time.Second
	lives := join(t, e, q)
	w := join(t, e, exclusive("a"))
	if err := clock.Set(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if left := do(t, r, "PTTL", "a").(int64); left < 3_000_000 {
		t.Fatalf("the lock has %d ms left: the clock was not stepped, and nothing is tested", left)
	}
	if c := renew(t, e, lives, time.Second); c.State != engine.Held || c.TTL > 3*time.Second {
		t.Errorf("who lives is renewed as %+v", c)
	}
	if w = renew(t, e, w, 20*time.Second); w.State != engine.Waiting || w.PollAfter > 4*time.Second {
		t.Errorf("who waits is to look in %v: %+v", w.PollAfter, w)
	}
	leave(t, e, lives)
	until(t, "a dead reader holds on", func() bool {
		w = renew(t, e, w, 20*time.Second)
		return w.State == engine.Held
	})
	if c := renew(t, e, dead, time.Second); c.State != engine.Gone {
		t.Errorf("the dead one is %+v", c)
	}
}
