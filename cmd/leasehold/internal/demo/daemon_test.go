//go:build unix

package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"leasehold/lab/servers"
)

// On a busy machine a replica that goes on may be silent for a moment when the Sentinel
// looks for one. The Sentinel would look again after twice its failover-timeout.
func TestASentinelThatFoundNoReplicaIsToldToLookAgain(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Parallel()
	ctx := t.Context()
	start := func(more ...string) *daemon {
		d, err := startRedis(ctx, t.TempDir(), more...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.kill)
		return d
	}
	s := &stage{ctx: ctx}
	primary := start()
	replica := start("--replicaof", strings.Replace(primary.addr, ":", " ", 1))
	s.until("the replica follows", func() error { return says(ctx, replica.addr, "replication", "master_link_status:up") })
	sentinel, err := startSentinel(ctx, t.TempDir(), primary.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sentinel.kill)
	s.until("the Sentinel knows the replica", func() error { return says(ctx, sentinel.addr, "sentinel", "slaves=1") })

	client, err := dialRedis("redis://" + sentinel.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	listens, abort := make(chan bool, 1), make(chan string, 16)
	heard := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { listens <- true })
	go client.Receive(heard, client.B().Subscribe().Channel("-failover-abort-no-good-slave").Build(), func(m rueidis.PubSubMessage) { abort <- m.Message })
	<-listens
	if err := replica.halt(); err != nil {
		t.Fatal(err)
	}
	if err := hasty(ctx, sentinel.addr); err != nil {
		t.Fatal(err)
	}
	s.until("the Sentinel misses the replica", func() error {
		replicas, err := client.Do(ctx, client.B().SentinelReplicas().Master("main").Build()).ToArray()
		if err != nil || len(replicas) != 1 {
			return errors.Join(err, errors.New("it does not say"))
		}
		if said, err := replicas[0].AsStrMap(); err != nil || !strings.Contains(said["flags"], "s_down") {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
	primary.kill()
	<-abort
	if err := replica.proceed(); err != nil {
		t.Fatal(err)
	}
	s.until("the replica is promoted", func() error { return promoted(ctx, sentinel.addr, replica.addr) })
	if s.err != nil {
		t.Error(s.err)
	}
}
