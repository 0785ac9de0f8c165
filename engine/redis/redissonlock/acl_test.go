package redissonlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// The rules of the package documentation, word for word.
// What a Cluster needs besides stands behind them there.
const acl = "user app on >secret ~* &redisson_* +evalsha +eval +time +get +set +incrby +del +pttl +pexpire +hlen +hget +hgetall +hkeys +hset +hdel +publish +subscribe +unsubscribe +pubsub +scan +info +ping +hello +auth +select"

func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	redistest.Documented(t, acl[strings.Index(acl, "~"):])
	for _, k := range []Kind{Lock, Fenced, ReadWrite} {
		r := servers.Redis(t, &servers.RedisOptions{ACL: []string{acl}})
		kit := of(k, "")
		a, b := kit.Opened(t, "redis://app:secret@"+r.Addr), kit.Opened(t, "redis://app:secret@"+r.Addr)
		received := watch(t, b)
		first := join(t, a, exclusive("x"))
		second := join(t, b, exclusive("x"))
		renew(t, a, first, time.Second)
		mine := func(c engine.Claim) bool { return c.ID == second.ID }
		expect(t, received, mine)
		leave(t, a, first)
		expect(t, received, mine)
		if c := renew(t, b, second, time.Second); c.State != engine.Held {
			t.Errorf("%s: renewed as %+v", k, c)
		}
		third := join(t, a, exclusive("y"))
		if err := b.Revoke(within(t), "y", third.Ticket, true); err != nil {
			t.Errorf("%s: Revoke: %v", k, err)
		}
		if k == ReadWrite {
			one, two := join(t, a, reader("z")), join(t, b, reader("z"))
			renew(t, a, one, 5*time.Second)
			waits := join(t, a, exclusive("z"))
			leave(t, a, one)
			leave(t, b, two)
			leave(t, a, waits)
		}
		line(t, a, "x")
		for _, err := range a.Queues(within(t), "") {
			if err != nil {
				t.Errorf("%s: Queues: %v", k, err)
			}
		}
		if log := do(t, r, "ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("%s: refused: %v", k, log)
		}
	}
}

const aclOfCluster = " +exists +spublish +ssubscribe +sunsubscribe +cluster|slots +cluster|shards"

func TestLeastPrivilegeOnCluster(t *testing.T) {
	t.Parallel()
	redistest.Documented(t, aclOfCluster)
	c := servers.RedisCluster(t, &servers.RedisOptions{ACL: []string{acl + aclOfCluster}})
	c.Patient(t, time.Minute)
	for _, k := range []Kind{Lock, Fenced, ReadWrite} {
		url := "redis-cluster://app:secret@" + strings.TrimPrefix(redistest.ClusterURL(c), "redis-cluster://")
		kit := of(k, "")
		a, b := kit.Opened(t, url), kit.Opened(t, url)
		received := watch(t, b)
		for _, name := range []string{"x" + string(k), "y" + string(k), "z" + string(k)} { // of several shards
			first, second := join(t, a, exclusive(name)), join(t, b, exclusive(name))
			mine := func(c engine.Claim) bool { return c.ID == second.ID }
			expect(t, received, mine)
			leave(t, a, first)
			expect(t, received, mine)
			if c := renew(t, b, second, time.Second); c.State != engine.Held {
				t.Errorf("%s: renewed as %+v", k, c)
			}
			leave(t, b, second)
		}
	}
	home, err := c.NodeOf("dead")
	if err != nil {
		t.Fatal(err)
	}
	e := of(ReadWrite, "").Opened(t, "redis-cluster://app:secret@"+strings.TrimPrefix(redistest.ClusterURL(c), "redis-cluster://"))
	dead := join(t, e, reader("dead"))
	do(t, home, "DEL", "{dead}:"+holder(dead.ID)+":rwlock_timeout:1")
	if w := join(t, e, exclusive("dead")); w.State != engine.Held {
		t.Errorf("only a dead reader holds, and a writer is %+v", w)
	}
	for _, n := range c.Nodes[:3] {
		if log := do(t, n, "ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("refused: %v", log)
		}
	}
	for _, lacks := range []string{"-spublish", "-ssubscribe"} {
		for _, n := range c.Nodes {
			do(t, n, "ACL", "SETUSER", "app", "+spublish", "+ssubscribe", lacks)
		}
		_, err := Open(within(t), "redisson-cluster://app:secret@"+c.Addrs()[0])
		if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "the engine could notify no waiter") || !strings.Contains(err.Error(), "ACL") {
			t.Errorf("%s: Open: %v", lacks, err)
		}
	}
}

// TestWhoMayNotCountListeners has locks, and sees nobody wait.
func TestWhoMayNotCountListeners(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{ACL: []string{acl + " -pubsub"}})
	e := locks.Opened(t, "redis://app:secret@"+r.Addr)
	listening(t, r, "redisson_lock__channel:{a}")
	if c := join(t, e, exclusive("a")); c.State != engine.Held || c.Contended {
		t.Errorf("joined as %+v", c)
	}
}

func TestWhoCannotBeNotifiedIsRefused(t *testing.T) { locks.WhoCannotBeNotifiedIsRefused(t) }
