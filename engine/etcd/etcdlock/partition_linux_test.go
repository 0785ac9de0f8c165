package etcdlock

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"

	"leasehold"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// Three members on three hosts. A holder is cut off, alone or together with the
// leader, while another waits where the majority is. For a while before, what is
// answered to it arrives late, as it does before a network breaks.
const (
	late         = 3 * time.Second // how much later than it was sent
	partitionTTL = 8 * time.Second // of the etcd lease that holds
	longTTL      = time.Minute     // of the one that waits
)

// In each round the holders of several names are cut off at once.
const rounds = 2

// speaking is how a client's connections are made on a host. What arrives there is
// held back while slow.
func speaking(h *servers.Host, slow *atomic.Bool) clientv3.Config {
	return clientv3.Config{DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := h.Dial(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return newLateConn(c, slow), nil
		}),
	}}
}

// lateConn hands on what it read late, while slow.
type lateConn struct {
	net.Conn
	slow    *atomic.Bool
	arrived chan arrival
	rest    []byte
	closed  chan struct{}
}

type arrival struct {
	b   []byte
	at  time.Time
	err error
}

func newLateConn(c net.Conn, slow *atomic.Bool) net.Conn {
	l := &lateConn{Conn: c, slow: slow, arrived: make(chan arrival, 1024), closed: make(chan struct{})}
	go func() {
		for {
			b := make([]byte, 16<<10)
			n, err := c.Read(b)
			select {
			case l.arrived <- arrival{b[:n], time.Now(), err}:
			case <-l.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lateConn) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		var a arrival
		select {
		case a = <-l.arrived:
		case <-l.closed:
			return 0, net.ErrClosed
		}
		if l.slow.Load() {
			select {
			case <-time.After(time.Until(a.at.Add(late))):
			case <-l.closed:
				return 0, net.ErrClosed
			}
		}
		if l.rest = a.b; a.err != nil {
			return 0, a.err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lateConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return l.Conn.Close()
}

// hold is one lock as either lock sees it: what ends its holder's trust, and how
// another gets it.
type hold struct {
	valid    func() bool
	lost     <-chan struct{}
	overlaps bool // when it was granted, the one before was valid
}

// locks is how a case locks a name with a client, by an etcd lease of that TTL.
type locks func(t *testing.T, client *clientv3.Client, ttl time.Duration, name string) (hold, error)

// ours is a client of this library.
func ours(t *testing.T, client *clientv3.Client, ttl time.Duration, name string) (hold, error) {
	ttl = ttl * (renewalIntervals - 1) / renewalIntervals // so that the etcd lease is as long as a Session's
	e, err := New(within(t), client, nil)
	if err != nil {
		return hold{}, err
	}
	c, err := leasehold.New(e, &leasehold.Options{TTL: ttl})
	if err != nil {
		return hold{}, err
	}
	t.Cleanup(func() { c.Close() })
	l, err := c.Lock(within(t), name)
	if err != nil {
		return hold{}, err
	}
	for l.Valid() && l.Remaining() < ttl/2 { // a hold is born with less, and soon raised
		time.Sleep(5 * time.Millisecond)
	}
	return hold{valid: l.Valid, lost: l.Context().Done()}, nil
}

// theirs trusts the library's Session, as its documentation has it.
func theirs(t *testing.T, client *clientv3.Client, ttl time.Duration, name string) (hold, error) {
	s, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second)))
	if err != nil {
		return hold{}, err
	}
	t.Cleanup(s.Orphan)
	if err := concurrency.NewMutex(s, name).Lock(within(t)); err != nil {
		return hold{}, err
	}
	return hold{valid: func() bool {
		select {
		case <-s.Done():
			return false
		default:
			return true
		}
	}, lost: s.Done()}, nil
}

// cutOff runs the rounds and returns how often two held at one instant, and of how many
// trials. In every second one the leader is cut off with the holders, who speak to it
// alone, unless they are to be alone in all. A hold that ended before the cut, as on a
// machine that was late, counts only if two held.
func cutOff(t *testing.T, lock locks, each int, alone bool) (both, of int) {
	n := servers.NewNetwork(t, "a", "b", "c", "client", "other")
	cluster := servers.EtcdClusterOn(t, n, nil)
	for round := range rounds {
		leader, err := cluster.Leader()
		if err != nil {
			t.Fatal(err)
		}
		where, addrs, majority := n.Hosts[3], cluster.Addrs(), cluster.Addrs()
		if round%2 == 1 && !alone {
			i := slices.Index(cluster.Members, leader)
			where, addrs, majority = n.Hosts[i], []string{leader.Addr}, slices.Delete(majority, i, i+1)
		}
		var slow, never atomic.Bool
		var trials []trial
		for i := range each {
			name := fmt.Sprint("round ", round, ", name ", i)
			first, err := lock(t, dial(t, speaking(where, &slow), addrs...).Client, partitionTTL, name)
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan hold, 1)
			other := dial(t, speaking(n.Hosts[4], &never), majority...).Client
			go func() {
				h, err := lock(t, other, longTTL, name)
				if err != nil {
					t.Error(err)
				}
				h.overlaps = err == nil && first.valid()
				next <- h
			}()
			trials = append(trials, trial{first, next, false})
		}
		slow.Store(true)
		// Long enough for a keep-alive: the Session sends one in each third, and looks
		// every half second whether it is time.
		time.Sleep(partitionTTL/3 + 600*time.Millisecond)
		for i := range trials {
			trials[i].cut = trials[i].first.valid()
		}
		if err := where.Cut(); err != nil {
			t.Fatal(err)
		}
		for _, x := range trials {
			select {
			case h := <-x.next:
				if h.overlaps {
					both++
				}
				if x.cut || h.overlaps {
					of++
				}
			case <-time.After(patience):
				t.Fatal("nobody holds after the cut")
			}
			select {
			case <-x.first.lost:
			case <-time.After(patience):
				t.Fatal("the holder was never told")
			}
		}
		slow.Store(false)
		if err := where.Heal(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Healthy(patience); err != nil {
			t.Fatal(err)
		}
	}
	if of < (rounds*each+1)/2 {
		t.Fatalf("void: %d of %d holds lasted until the cut", of, rounds*each)
	}
	return both, of
}

// trial is a holder that is cut off, and who holds after it.
type trial struct {
	first hold
	next  <-chan hold
	cut   bool // the holder was valid still when it was cut off
}

func TestHolderThatIsCutOffHasLostBeforeAnotherHolds(t *testing.T) {
	t.Parallel()
	each := testutil.Sized(50, 5)
	if both, of := cutOff(t, ours, each, false); both > 0 {
		t.Errorf("two held in %d of %d trials", both, of)
	}
}

// The twin shows that the test can see: with the library's Session the holder
// trusts its lease for as long as the answer was late.
func TestSessionIsTrustedForTooLong(t *testing.T) {
	if testing.Short() {
		servers.LeftOut(t, "it takes 30 s")
	}
	t.Parallel()
	const each = 10
	if both, of := cutOff(t, theirs, each, true); both < of {
		t.Errorf("void: with the library's Session two held in %d of %d trials only; then the other test shows nothing either", both, of)
	}
}
