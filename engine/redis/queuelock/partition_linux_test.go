package queuelock

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/servers"
)

// clientOn is a client of the library that stands on a host, and asks first who
// is there.
func clientOn(t *testing.T, n *servers.Network, at int, how rueidis.ClientOption, o *Options) *leasehold.Client {
	t.Helper()
	addrs := slices.Clone(how.InitAddress)
	addrs[0], addrs[at] = addrs[at], addrs[0]
	// A connection to who was cut off waits for an answer, whatever rueidis is
	// told: the test ends it.
	var mu sync.Mutex
	var conns []net.Conn
	ended := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		for _, c := range conns {
			c.Close()
		}
	})
	how.InitAddress, how.DisableCache, how.ConnWriteTimeout = addrs, true, 2*time.Second
	how.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		c, err := n.Hosts[at].Dial(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if ended {
			c.Close()
			return nil, net.ErrClosed
		}
		conns = append(conns, c)
		return c, nil
	}
	c, err := rueidis.NewClient(how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e, err := New(within(t), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leasehold.New(e, &leasehold.Options{Require: engine.Guarantees{Failover: engine.FailoverNone}}); !errors.Is(err, leasehold.ErrRequire) {
		t.Errorf("who cannot bear two holders is not refused: %v", err)
	}
	locks, err := leasehold.New(e, &leasehold.Options{TTL: partitionTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

// partitionTTL is much longer than a busy machine keeps a holder from renewing.
const partitionTTL = 4 * time.Second

// TestHolderOnACutOffPrimary cuts off the primary together with a client that
// holds and renews there, while another waits on the side of the majority, which
// elects a new primary. Everything had been replicated before.
func TestHolderOnACutOffPrimary(t *testing.T) {
	t.Parallel()
	t.Run("without acknowledgement two hold for as long as it lasts", func(t *testing.T) {
		const tries = 3 // on a busy machine one of them may renew too late
		both := false
		for try := 0; try < tries && !both; try++ {
			t.Run("", func(t *testing.T) {
				p := partitioned(t, nil, nil)
				p.granted()
				// Not only for a moment: the holder goes on renewing where it is.
				time.Sleep(partitionTTL)
				if both = p.left > 0 && p.held.Valid() && p.next.Valid(); !both {
					t.Logf("two leases should be valid at once, the first is %v (%v), the second %v",
						p.held.Valid(), context.Cause(p.held.Context()), p.next.Valid())
					return
				}
				if err := p.network.Hosts[0].Heal(); err != nil {
					t.Fatal(err)
				}
				p.notified()
			})
			if t.Failed() {
				return
			}
		}
		if !both {
			t.Fatalf("void: in %d tries two did not hold at once: then the two other cases show nothing either", tries)
		}
	})
	t.Run("with replicas=1 two hold", func(t *testing.T) {
		p := partitioned(t, nil, &Options{Replicas: 1})
		p.granted()
		if p.left > 0 {
			t.Errorf("granted while the first lease was valid for %v more", p.left)
		}
		p.notified()
	})
	t.Run("with min-replicas the holder is never told", func(t *testing.T) {
		p := partitioned(t, []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"}, nil)
		p.notified()
		p.granted()
		// The old primary takes writes until it has missed its replicas for the lag
		// allowed. Whether another was granted in that time is a matter of how soon
		// the Sentinels act.
		t.Logf("both held for %v", max(0, p.end.Sub(p.begin)).Round(10*time.Millisecond))
	})
}

// A primary of a Cluster that misses the majority of the others stops by itself,
// cluster-node-timeout after the cut.
func TestHolderOnACutOffNodeOfACluster(t *testing.T) {
	t.Parallel()
	n := servers.NewNetwork(t, "old", "new", "third")
	c := servers.RedisClusterOn(t, n, nil)
	e := &Engine{prefix: "leasehold:"}
	name := "x"
	for do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", e.key(name)).(int64) > 16384/3-2 { // the first node serves the first third
		name += "x"
	}
	do(t, c.Nodes[3], "READONLY")
	p := cut(t, n, rueidis.ClientOption{InitAddress: c.Addrs()[:3]}, nil, name, []*servers.RedisServer{c.Nodes[0], c.Nodes[3]})
	p.notified()
	p.granted()
	t.Logf("both held for %v", max(0, p.end.Sub(p.begin)).Round(10*time.Millisecond))
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

// partitioned is a set-up with Sentinels, cut.
func partitioned(t *testing.T, args []string, o *Options) *partition {
	n := servers.NewNetwork(t, "old", "new", "third")
	s := servers.SentinelOn(t, n, &servers.RedisOptions{Args: args})
	how := rueidis.ClientOption{InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.Master}}
	return cut(t, n, how, o, "x", s.Nodes)
}

// cut has one client hold the name and another wait for it, and then cuts off the
// first host, where the one that holds and the primary are. The nodes are those
// that have the name.
func cut(t *testing.T, n *servers.Network, how rueidis.ClientOption, o *Options, name string, nodes []*servers.RedisServer) *partition {
	t.Helper()
	p := &partition{t: t, network: n, lost: make(chan time.Time, 1), waits: make(chan grant, 1)}
	there, here := clientOn(t, n, 0, how, o), clientOn(t, n, 1, how, o)
	var err error
	if p.held, err = there.Lock(within(t), name); err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(p.held.Context(), func() { p.lost <- time.Now() })
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	go func() {
		l, err := here.Lock(ctx, name)
		p.waits <- grant{l, err, time.Now(), p.held.Remaining()}
	}()
	// Both are in the queue on every node.
	e := &Engine{prefix: "leasehold:"}
	for _, node := range nodes {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if fields := do(t, node, "HLEN", e.key(name)).(int64); fields == 3 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("%s has %d fields of the queue, not all three", node.Addr, fields)
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
func (p *partition) notified() {
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
