package redisson

import (
	"context"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/redissonlock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// releasesAreNotified is about nobody having to look. So it uses engines, which do
// nothing by themselves, and counts requests: the client of ours polls every second
// in any case, and Redisson's when the holder's lease is over.
func releasesAreNotified(t *testing.T, s *site, java *Thread, release string) {
	for _, k := range []struct {
		kind    redissonlock.Kind
		java    string
		channel func(name string) string
	}{
		{redissonlock.Lock, Lock, channelOf},
		{redissonlock.Fenced, Fenced, channelOf},
		{redissonlock.ReadWrite, Write, channelOfReadWrite},
	} {
		if k.java == Fenced && release == Old {
			continue // it has none
		}
		t.Run(k.java, func(t *testing.T) {
			e := receives(t, opened(t, s.url(k.kind)))
			for _, suffix := range []string{"", "1", "2", "{3}4"} { // of several shards
				name := it.NameOf(t) + suffix
				// From here on the node of that name knows all scripts. Asking whether
				// it does would count.
				it.Does(t, java, "lock", k.java, name)
				it.Does(t, java, "unlock", k.java, name)
				e.leave(t, e.join(t, name))

				e.notifiedByJava(t, s, java, k.java, name, k.channel(name))
				e.notifiedByUs(t, s, java, k.java, name)
			}
		})
	}
}

func (e *hearing) notifiedByJava(t *testing.T, s *site, java *Thread, kind, name, channel string) {
	t.Helper()
	it.Does(t, java, "lock", kind, name, "60000") // with a lease: a renewal would be a script too
	waits := e.join(t, name)
	if waits.State != engine.Waiting || waits.PollAfter < 10*time.Second {
		t.Fatalf("%s: ours is %v, and looks after %v", name, waits.State, waits.PollAfter)
	}
	s.listening(t, channel, 1)
	e.quiet(t)
	before := s.scripts(t)
	it.Does(t, java, "unlock", kind, name)
	e.receive(t, waits.ID)
	if n := s.scripts(t) - before; n != 1 {
		t.Errorf("%s: %d scripts ran; Java's unlock is one", name, n)
	}
	c, err := e.again(t, waits)
	if err != nil || c.State != engine.Held {
		t.Fatalf("%s: ours is %+v after the message: %v", name, c, err)
	}
	e.leave(t, c)
}

func (e *hearing) notifiedByUs(t *testing.T, s *site, java *Thread, kind, name string) {
	t.Helper()
	holds := e.join(t, name)
	if holds.State != engine.Held {
		t.Fatalf("%s: ours is %v", name, holds.State)
	}
	before := s.scripts(t)
	waits := s.sleeps(t, java, "lock", kind, name)
	began := time.Now()
	e.leave(t, holds)
	if got := it.Answered(t, waits); got.Err != nil {
		t.Fatalf("%s: Java: %v", name, got.Err)
	}
	// More tries are seen now and then on a Cluster, most likely for late messages of
	// earlier releases, each of which leaves Redisson a permit: there were four. They
	// cost no time.
	const releases = 4
	if n := s.scripts(t) - before; n < 4 || n > 4+releases {
		t.Fatalf("%s: %d scripts ran instead of Java's two, our leaving, and Java's third", name, n)
	}
	if took := time.Since(began); took > longTTL/2 {
		t.Fatalf("%s: Java was told after %v: it looked when our lifetime was over", name, took)
	}
	it.Does(t, java, "unlock", kind, name)
}

// longTTL is the lifetime of claims that nothing but Leave may end.
const longTTL = 20 * time.Second

// hearing is an engine whose Watch runs.
type hearing struct {
	engine.Engine
	received chan engine.Claim
}

func receives(t *testing.T, e engine.Engine) *hearing {
	h := &hearing{e, make(chan engine.Claim, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Watch(ctx, func(c engine.Claim) { h.received <- c })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return h
}

func (e *hearing) join(t *testing.T, name string) engine.Claim {
	t.Helper()
	return e.joinFor(t, name, longTTL)
}

func (e *hearing) joinFor(t *testing.T, name string, ttl time.Duration) engine.Claim {
	t.Helper()
	c, err := e.Join(it.Within(t), engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// again asks once more for a claim that waits, as the core does.
func (e *hearing) again(t *testing.T, c engine.Claim) (engine.Claim, error) {
	return e.Join(it.Within(t), engine.Request{Name: c.Name, ID: c.ID, Permits: engine.Max, Limit: engine.Max, WaitTTL: longTTL})
}

func (e *hearing) leave(t *testing.T, c engine.Claim) {
	t.Helper()
	if _, err := e.Leave(it.Within(t), []engine.Claim{c}); err != nil {
		t.Fatal(err)
	}
}

// quiet waits until nothing has been heard for a while: that a subscription stands
// is a reason to look as well, and is not what is waited for.
func (e *hearing) quiet(t *testing.T) {
	t.Helper()
	for {
		select {
		case <-e.received:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

// hear waits for a reason to look at a claim.
func (e *hearing) receive(t *testing.T, id engine.ID) {
	t.Helper()
	for timeout := time.After(it.Bound); ; {
		select {
		case c := <-e.received:
			if c.ID == id {
				return
			}
		case <-timeout:
			t.Fatal("a release was not heard of")
		}
	}
}

// Redisson may listen on a replica there, which hears what its primary publishes.
func TestReleasesAreNotifiedBehindSentinel(t *testing.T) {
	sentinel := servers.Sentinel(t, nil)
	sentinel.Patient(t, time.Minute)
	primary, err := sentinel.Primary()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{nodes: []*servers.RedisServer{primary}, at: "redisson-sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.Master}
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			java := started(t, built(t, release), Options{Addrs: sentinel.Addrs(), Sentinel: sentinel.Master})
			releasesAreNotified(t, s, java.Thread(1), release)
		})
	}
}

// On a Cluster the old release publishes to all nodes, and the current one to the
// node of the name alone.
func TestReleasesAreNotifiedOnCluster(t *testing.T) {
	cluster := servers.RedisCluster(t, nil)
	cluster.Patient(t, time.Minute)
	s := &site{nodes: cluster.Nodes, at: "redisson-cluster://" + cluster.Addrs()[0] + "," + cluster.Addrs()[1]}
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			java := started(t, built(t, release), Options{Addrs: cluster.Addrs()[:3], Cluster: true})
			releasesAreNotified(t, s, java.Thread(1), release)
		})
	}
}
