package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	testutil.HoldIfAsked(func(ctx context.Context, url string) (engine.Engine, error) { return Open(ctx, url) })
	goleak.VerifyTestMain(m)
}

// A holder with a TTL of two seconds is killed: the next holds after twice that, which is
// its session, and two ticks of the server.
func TestTheNextHoldsSoonAfterAHolderWasKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	s := zooKeeper(t)
	took := testutil.Killed(t, open(t, on(s)).Engine, "zookeeper://"+s.Addr, 4, testutil.KilledTTL/12) // anywhere between two proofs
	if most := 2*testutil.KilledTTL + 2*servers.DefaultTick; took > most {
		t.Errorf("the next held after %v, want at most %v", took, most)
	}
}

// Each TTL has a session of its own, which all claims with it share, and is what they are
// granted.
func TestATTLIsGrantedAsItWasAskedFor(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	before, err := s.Monitored("zk_num_alive_connections")
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[int64]time.Duration{}
	for i, ttl := range []time.Duration{2 * time.Second, 2 * time.Second, 1900 * time.Millisecond, 5 * time.Second, a.usual} {
		r := exclusive(fmt.Sprint(i))
		r.TTL = ttl
		c, err := a.Join(within(t), r)
		if err != nil || c.TTL != ttl {
			t.Fatalf("%v are granted for %v, %v", c.TTL, ttl, err)
		}
		got, err := a.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: a.usual}})
		if err != nil || got[0].TTL != ttl {
			t.Errorf("renewed, %v are granted for %v, %v", got, ttl, err)
		}
		l, err := a.Queue(within(t), c.Name)
		if err != nil || l.Claims[0].TTL != ttl {
			t.Errorf("shown are %v of %v, %v", l.Claims, ttl, err)
		}
		of, _ := a.find(c.Name, c.ID)
		now, _ := of.link.current()
		sessions[now.id] = now.timeout
	}
	var each []time.Duration
	for _, timeout := range sessions {
		each = append(each, timeout)
	}
	if slices.Sort(each); !slices.Equal(each, []time.Duration{4 * time.Second, 10 * time.Second, 2 * a.usual}) {
		t.Errorf("sessions of %v", each)
	}
	if after, err := s.Monitored("zk_num_alive_connections"); err != nil || after-before != 2 {
		t.Errorf("%v connections more, %v", after-before, err)
	}
}

// As many TTLs as there may be sessions; one more is refused in words, and goes once one of
// them is not used any more, whose session ends.
func TestOneTTLTooMany(t *testing.T) {
	a := open(t, on(zooKeeper(t))) // one, which nobody uses yet: the longest
	a.hold(t, exclusive("longest"))
	asksIn := func(ctx context.Context, i int) (engine.Claim, error) {
		r := exclusive(fmt.Sprint(i))
		r.TTL = time.Duration(i) * time.Second
		return a.Join(ctx, r)
	}
	asks := func(i int) (engine.Claim, error) { return asksIn(within(t), i) }
	var held []engine.Claim
	for i := range session.MaxClasses - 1 {
		c, err := asks(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if _, err := asks(9); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "different TTLs") {
		t.Fatalf("one more TTL: %v", err)
	}
	// While a claim is given up another TTL waits for its class.
	of, c := a.find(held[2].Name, held[2].ID)
	a.mu.Lock()
	of.m.Leave(c)
	a.mu.Unlock()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := asksIn(soon, 9); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("while one is given up: %v", err)
	}
	a.mu.Lock()
	a.spawn(func() { of.remove(c) })
	a.mu.Unlock()
	if _, err := asks(9); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a session that nobody uses goes on", func() bool { return of.life.Err() != nil })
}
