package redislock

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold"
	"leasehold/internal/servers"
)

// clientOn is a client of the library that stands on a host and asks that host's
// Sentinel first.
func clientOn(t *testing.T, s *servers.SentinelSetup, n *servers.Network, at int, o *Options) *leasehold.Client {
	t.Helper()
	addrs := s.Addrs()
	addrs[0], addrs[at] = addrs[at], addrs[0]
	// A connection to who was cut off waits for an answer, whatever rueidis is
	// told: the test ends it.
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			c.Close()
		}
	})
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: s.Master}, DisableCache: true,
		ConnWriteTimeout: 2 * time.Second,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := n.Hosts[at].Dial(ctx, "tcp", addr)
			if err == nil {
				mu.Lock()
				conns = append(conns, c)
				mu.Unlock()
			}
			return c, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e, err := New(within(t), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leasehold.New(e, &leasehold.Options{Require: leasehold.NoDoubleGrant}); !errors.Is(err, leasehold.ErrRequire) {
		t.Errorf("who cannot bear two holders is not refused: %v", err)
	}
	locks, err := leasehold.New(e, &leasehold.Options{TTL: partitionTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

const partitionTTL = 2 * time.Second

// TestHolderOnACutOffPrimary cuts off the primary together with a client that
// holds and renews there, while another waits on the side of the majority, which
// elects a new primary. Everything had been replicated before.
func TestHolderOnACutOffPrimary(t *testing.T) {
	t.Run("without acknowledgement two hold for as long as it lasts", func(t *testing.T) {
		p := partitioned(t, nil, nil)
		p.granted()
		// Not only for a moment: the holder goes on renewing where it is.
		for range 3 {
			time.Sleep(partitionTTL)
			if !p.held.Valid() || !p.next.Valid() {
				t.Fatalf("void: two leases should be valid at once, the first is %v (%v), the second %v: "+
					"then the two other cases show nothing either", p.held.Valid(), context.Cause(p.held.Context()), p.next.Valid())
			}
		}
		if err := p.network.Hosts[0].Heal(); err != nil {
			t.Fatal(err)
		}
		p.told()
		if !p.next.Valid() {
			t.Errorf("the second holder was told instead: %v", context.Cause(p.next.Context()))
		}
	})
	t.Run("with replicas=1 two hold", func(t *testing.T) {
		p := partitioned(t, nil, &Options{Replicas: 1})
		p.granted()
		if p.left > 0 {
			t.Errorf("granted while the first lease was valid for %v more", p.left)
		}
		p.told()
	})
	t.Run("with min-replicas the holder is never told", func(t *testing.T) {
		p := partitioned(t, []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"}, nil)
		p.told()
		p.granted()
		// The old primary takes writes until it has missed its replicas for the lag
		// allowed. Whether another was granted in that time is a matter of how soon
		// the Sentinels act.
		t.Logf("both held for %v", max(0, p.end.Sub(p.begin)).Round(10*time.Millisecond))
	})
}

// partition is two clients, before and after.
type partition struct {
	t       *testing.T
	network *servers.Network
	held    *leasehold.Lease // by the client that is cut off with the primary
	next    *leasehold.Lease // by the other
	left    time.Duration    // of the first lease when the other was granted
	cut     time.Time
	end     time.Time // of the first lease
	begin   time.Time // of the second
	lost    chan time.Time
	waits   chan grant
}

type grant struct {
	lease *leasehold.Lease
	err   error
	at    time.Time
	left  time.Duration
}

func partitioned(t *testing.T, args []string, o *Options) *partition {
	n := servers.NewNetwork(t, "old", "new", "third")
	s := servers.SentinelOn(t, n, &servers.RedisOptions{Args: args})
	p := &partition{t: t, network: n, lost: make(chan time.Time, 1), waits: make(chan grant, 1)}
	there, here := clientOn(t, s, n, 0, o), clientOn(t, s, n, 1, o)
	var err error
	if p.held, err = there.Lock(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(p.held.Context(), func() { p.lost <- time.Now() })
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	go func() {
		l, err := here.Lock(ctx, "x")
		p.waits <- grant{l, err, time.Now(), p.held.Remaining()}
	}()
	// Both are in line on every node.
	e := &Engine{prefix: defaultPrefix}
	for _, node := range s.Nodes {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if fields := do(t, node, "HLEN", e.key("x")).(int64); fields == 3 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("%s has %d fields of the line, not all three", node.Addr, fields)
			}
		}
	}
	if err := n.Hosts[0].Cut(); err != nil {
		t.Fatal(err)
	}
	p.cut = time.Now()
	if !p.held.Valid() {
		t.Fatalf("void: the holder was told before the cut: %v", context.Cause(p.held.Context()))
	}
	return p
}

// granted waits until the other holds.
func (p *partition) granted() {
	p.t.Helper()
	g := <-p.waits
	if g.err != nil {
		p.t.Fatalf("void: the other was not granted: %v", g.err)
	}
	p.next, p.left, p.begin = g.lease, g.left, g.at
	p.t.Logf("the other was granted %v after the cut; then the first lease was valid for %v more", p.since(g.at), p.left)
}

func (p *partition) since(at time.Time) time.Duration {
	return at.Sub(p.cut).Round(10 * time.Millisecond)
}

// told waits until the holder knows.
func (p *partition) told() {
	p.t.Helper()
	select {
	case p.end = <-p.lost:
		cause := context.Cause(p.held.Context())
		p.t.Logf("told %v after the cut: %v", p.since(p.end), cause)
		if !errors.Is(cause, leasehold.ErrLost) {
			p.t.Errorf("told of %v", cause)
		}
	case <-time.After(time.Minute):
		p.t.Fatal("the holder was not told within a minute")
	}
}
