package redissonlock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestClusterIsNotifiedInBothWays: Redisson listens by SSUBSCRIBE since 3.22.0 and by
// SUBSCRIBE before, and publishes the same way.
func TestClusterIsNotifiedInBothWays(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	const name, channel = "a", "redisson_lock__channel:{a}"
	home, away := homeOf(t, c, name)
	e := locks.Opened(t, redistest.ClusterURL(c))
	received := watch(t, e)
	j := program(t, home)
	for verb, by := range map[string]*servers.RedisServer{"SPUBLISH": home, "PUBLISH": away} {
		j.lock(name, 10*time.Minute)
		q := join(t, e, exclusive(name))
		mine := func(n engine.Claim) bool { return n.ID == q.ID && n.State == engine.Waiting }
		until(t, verb+": not listened to", func() bool {
			shard := do(t, home, "PUBSUB", "SHARDNUMSUB", channel).([]any)[1] == int64(1)
			plain := int64(0)
			for _, n := range c.Nodes[:3] {
				plain += do(t, n, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64)
			}
			return shard && plain > 0
		})
		drain(received) // that the subscriptions began
		do(t, home, "DEL", name)
		do(t, by, verb, channel, "0")
		expect(t, received, mine)
		if q = renew(t, e, q, time.Minute); q.State != engine.Held {
			t.Fatalf("%s: told, and renewed as %+v", verb, q)
		}
		leave(t, e, q)
	}

	// And ours, to whoever listens either way.
	conn, cancel := connect(t, home.Addr).Dedicate()
	t.Cleanup(cancel)
	sharded, began := make(chan string, 10), make(chan struct{}, 10)
	conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { sharded <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { began <- struct{}{} },
	})
	if err := conn.Do(t.Context(), conn.B().Ssubscribe().Channel(channel).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	<-began
	plain := listening(t, away, channel)
	leave(t, e, join(t, e, exclusive(name)))
	for kind, messages := range map[string]<-chan string{"SSUBSCRIBE": sharded, "SUBSCRIBE": plain} {
		select {
		case <-messages:
		case <-time.After(20 * time.Second):
			t.Errorf("who listens by %s was not told", kind)
		}
	}
}

// TestShardSubscriptionFollowsItsSlot: the server ends it when the slot moves.
func TestShardSubscriptionFollowsItsSlot(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	const name, channel = "a", "redisson_lock__channel:{a}"
	from, to := homeOf(t, c, name)
	e := locks.Opened(t, redistest.ClusterURL(c))
	received := watch(t, e)
	program(t, from).lock(name, 10*time.Minute)
	q := join(t, e, exclusive(name))
	listens := func(n *servers.RedisServer) func() bool {
		return func() bool { return do(t, n, "PUBSUB", "SHARDNUMSUB", channel).([]any)[1] == int64(1) }
	}
	until(t, "not listened to", listens(from))

	slot := strconv.FormatInt(do(t, from, "CLUSTER", "KEYSLOT", name).(int64), 10)
	toID, fromID := do(t, to, "CLUSTER", "MYID").(string), do(t, from, "CLUSTER", "MYID").(string)
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := strings.Cut(to.Addr, ":")
	for keys := do(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "10").([]any); len(keys) > 0; keys = keys[1:] {
		do(t, from, "MIGRATE", host, port, keys[0].(string), "0", "5000")
	}
	for _, n := range []*servers.RedisServer{to, from} {
		do(t, n, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	until(t, "not listened to where the slot is now", listens(to))
	drain(received)
	do(t, to, "DEL", name)
	do(t, to, "SPUBLISH", channel, "0")
	expect(t, received, func(n engine.Claim) bool { return n.ID == q.ID })
	if q = renew(t, e, q, time.Minute); q.State != engine.Held {
		t.Errorf("told, and renewed as %+v", q)
	}
}

// A reader lives while its slot moves: the node that takes the slot in has the lock before the
// key with that reader's deadline. Nothing is judged then, and nothing is given up.
func TestAReaderLivesWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	const name = "a"
	from, to := homeOf(t, c, name)
	kit := readWrite
	kit.Open = func(ctx context.Context, url string) (engine.Engine, error) {
		return Open(ctx, "redisson"+strings.TrimPrefix(url, "redis")+"?kind=readwrite&watchdog=1h")
	}
	e := kit.Opened(t, redistest.ClusterURL(c))
	asks := func(r engine.Request) engine.Request { r.WaitTTL = time.Hour; return r }
	one, two := join(t, e, asks(reader(name))), join(t, e, asks(reader(name)))

	slot := strconv.FormatInt(do(t, from, "CLUSTER", "KEYSLOT", name).(int64), 10)
	toID, fromID := do(t, to, "CLUSTER", "MYID").(string), do(t, from, "CLUSTER", "MYID").(string)
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := strings.Cut(to.Addr, ":")
	move := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			do(t, from, "MIGRATE", host, port, key, "0", "5000")
		}
	}
	deadline := func(c engine.Claim) string { return "{a}:" + holder(c.ID) + ":rwlock_timeout:1" }
	fails := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s while the keys are apart: %v, want an error after which it is asked again", what, err)
		}
	}
	judge := func() {
		t.Helper()
		for what, old := range map[string]engine.ID{"a writer": {}, "a writer in place of a reader": one.ID} {
			w := asks(exclusive(name))
			w.NoWait, w.Replaces = true, old
			_, err := e.Join(within(t), w)
			fails(what, err)
		}
		_, err := e.Renew(within(t), []engine.Renewal{{Name: name, ID: two.ID, Want: time.Hour}})
		fails("a renewal", err)
		_, err = e.Leave(within(t), []engine.Claim{one})
		fails("a Leave", err)
		fails("a revocation", e.Revoke(within(t), name, one.Ticket, true))
		_, err = e.Queue(within(t), name)
		fails("a look", err)
	}
	move(name, redisconn.KeyBeside(beside, name))
	judge()
	move(deadline(one))
	judge()
	if one = renew(t, e, one, time.Hour); one.State != engine.Held {
		t.Errorf("all keys of one reader are together, and it is renewed as %+v", one)
	}
	move(deadline(two))
	for _, n := range []*servers.RedisServer{to, from} {
		do(t, n, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	if two = renew(t, e, two, time.Hour); two.State != engine.Held {
		t.Errorf("renewed as %+v", two)
	}
	for _, c := range []engine.Claim{one, two} {
		if s := leave(t, e, c); s != engine.Held {
			t.Errorf("left as %v", s)
		}
	}
	if w := join(t, e, exclusive(name)); w.State != engine.Held {
		t.Errorf("a writer after both readers: %+v", w)
	}
}

// drain takes out the notifications that have come, and those that come at once.
func drain(received <-chan engine.Claim) {
	for {
		select {
		case <-received:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// TestNamesThatRedissonCannotUseOnACluster have their other keys in another slot.
func TestNamesThatRedissonCannotUseOnACluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	slot := func(key string) any { return do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key) }
	seen := map[string]string{}
	for _, name := range []string{"a", "{a}", "a{b}c", "{}", "{}x", "a}b", "}{", "{", "}", "a{b", "{{a}}", "n{a}", "t{a}", "s{1}a", "{}{x}", "\u00fc}"} {
		key := redisconn.KeyBeside(beside, name)
		if other, twice := seen[key]; twice {
			t.Errorf("%q and %q share %q", name, other, key)
		}
		seen[key] = name
		if slot(name) != slot(key) {
			t.Errorf("%q is in slot %v, %q in %v", name, slot(name), key, slot(key))
		}
		tag, together := redisconn.Tagged(name)
		if same := slot(name) == slot("redisson_lock_token:"+tag) && slot(name) == slot(tag+":holder:rwlock_timeout:1"); same != together {
			t.Errorf("%q and its other keys are together: %v, said: %v", name, same, together)
		}
	}
	for _, k := range []redistest.Kit{readWrite, fenced} {
		e := k.Opened(t, redistest.ClusterURL(c))
		for name, want := range map[string]bool{"a": true, "{a}b": true, "a}b": false, "{}a": false} {
			q, err := e.Join(within(t), exclusive(name))
			if want && (err != nil || q.State != engine.Held) || !want && !errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s: Join of %q says %v %v", k.Name, name, q.State, err)
			}
			if want {
				leave(t, e, q)
			}
		}
	}
	e := readWrite.Opened(t, redistest.ClusterURL(c))
	one, two := join(t, e, reader("a")), join(t, e, reader("a"))
	leave(t, e, one)
	w := join(t, e, exclusive("a"))
	leave(t, e, two)
	if w = renew(t, e, w, time.Second); w.State != engine.Held {
		t.Errorf("readers left, and a writer is %+v", w)
	}
}

// TestAClusterWithoutShardChannels is one before Redis 7.0. There all listen and
// publish in the one way there is.
func TestAClusterWithoutShardChannels(t *testing.T) {
	t.Parallel()
	var args []string
	for _, command := range []string{"spublish", "ssubscribe", "sunsubscribe"} {
		args = append(args, "--rename-command", command, "")
	}
	c := servers.RedisCluster(t, &servers.RedisOptions{Args: args})
	c.Patient(t, time.Minute)
	if _, err := c.Nodes[0].Do("SPUBLISH", "x", "0"); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Fatalf("void: SPUBLISH: %v", err)
	}
	for _, kit := range []redistest.Kit{locks, readWrite, fenced} {
		a, b := kit.Opened(t, redistest.ClusterURL(c)), kit.Opened(t, redistest.ClusterURL(c))
		received := watch(t, b)
		name := "x" + kit.Name
		first, second := join(t, a, exclusive(name)), join(t, b, exclusive(name))
		mine := func(n engine.Claim) bool { return n.ID == second.ID }
		expect(t, received, mine) // that the subscription began
		drain(received)
		leave(t, a, first)
		expect(t, received, mine)
		if second = renew(t, b, second, time.Second); second.State != engine.Held {
			t.Errorf("%s: told, and renewed as %+v", kit.Name, second)
		}
	}
}

// TestShardSubscriptionsEnd: a Redisson client that finds one takes it for somebody who
// waits.
func TestShardSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	home, err := c.NodeOf("a")
	if err != nil {
		t.Fatal(err)
	}
	e := locks.Opened(t, redistest.ClusterURL(c))
	watch(t, e)
	listeners := func() any {
		return do(t, home, "PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{a}").([]any)[1]
	}
	program(t, home).lock("a", 10*time.Minute)
	q := join(t, e, exclusive("a"))
	until(t, "nobody listens while a claim waits", func() bool { return listeners() == int64(1) })
	leave(t, e, q)
	until(t, "nobody waits, and it is listened to", func() bool { return listeners() == int64(0) })
}

// TestOnAClusterOnlyShardSubscriptionsCount: a holder does not take its own for somebody who
// waits before the server has answered that it is over; and what another node has not
// answered hides nobody.
func TestOnAClusterOnlyShardSubscriptionsCount(t *testing.T) {
	t.Parallel()
	redistest.Rounds(t, onlyShardSubscriptionsCount)
}

func onlyShardSubscriptionsCount(t *testing.T) (void bool) {
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	e := locks.Opened(t, redistest.ClusterURL(c)).(*Engine)
	watch(t, e)
	count := func(n *servers.RedisServer, kind, channel string) int64 {
		return do(t, n, "PUBSUB", kind, channel).([]any)[1].(int64)
	}
	var plain *servers.RedisServer // where SUBSCRIBE went
	until(t, "not one node is subscribed to", func() bool {
		listen := int64(0)
		for _, n := range c.Nodes[:3] {
			if one := count(n, "NUMSUB", e.channel(nobody)); one > 0 {
				listen, plain = listen+one, n
			}
		}
		return listen == 1 // and not that of Open any more
	})
	name, home := "", plain
	for i := 0; home == plain; i++ {
		var err error
		if name = strconv.Itoa(i); i > 100 {
			t.Fatal("void: every name is on one node")
		}
		if home, err = c.NodeOf(name); err != nil {
			t.Fatal(err)
		}
	}
	channel := e.channel(name)
	waits := func() engine.Claim {
		t.Helper()
		program(t, home).lock(name, 10*time.Minute)
		q := join(t, e, exclusive(name))
		until(t, "not listened to", func() bool {
			return count(home, "SHARDNUMSUB", channel) == 1 && count(plain, "NUMSUB", channel) == 1
		})
		return q
	}
	stop := func(n *servers.RedisServer) (at time.Time) {
		t.Helper()
		at = time.Now()
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Cont() })
		return at
	}

	q := waits()
	stopped := stop(plain)
	do(t, home, "DEL", name)
	if q = renew(t, e, q, time.Minute); q.State != engine.Held {
		t.Fatalf("it is free, and renewed as %+v", q)
	}
	until(t, "it is listened to for ever", func() bool { return count(home, "SHARDNUMSUB", channel) == 0 })
	conn, cancel := connect(t, home.Addr).Dedicate()
	t.Cleanup(cancel)
	began := make(chan struct{}, 1)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnSubscription: func(rueidis.PubSubSubscription) { began <- struct{}{} }})
	if err := conn.Do(t.Context(), conn.B().Ssubscribe().Channel(channel).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	<-began
	until(t, "it is not contended", func() bool {
		q = renew(t, e, q, time.Minute)
		return q.Contended
	})
	if !e.ears.Listening(name, e.wire) { // it does until the engine gives that node up
		if redistest.GivenUp(stopped) {
			return true
		}
		t.Error("contended only after a node that was silent was given up")
	}
	plain.Cont()
	cancel()
	until(t, "one who has gone is counted", func() bool { return count(home, "SHARDNUMSUB", channel) == 0 })

	leave(t, e, q)
	until(t, "it does not hear", func() bool { return !e.ears.Listening(name, e.wire) })
	q = waits()
	stopped = stop(home)
	e.ears.Forget(q.ID) // it holds
	until(t, "it is listened to for ever", func() bool { return !e.ears.Listening(name, e.wire) })
	if !e.listens(name) {
		if redistest.GivenUp(stopped) {
			return true
		}
		t.Error("the server has not answered, and it is said not to listen")
	}
	home.Cont()
	until(t, "it is said to listen for ever", func() bool { return !e.listens(name) })
	return false
}

// homeOf is the node that has a name, and another one.
func homeOf(t *testing.T, c *servers.ClusterSetup, name string) (home, away *servers.RedisServer) {
	t.Helper()
	home, err := c.NodeOf(name)
	if err != nil {
		t.Fatal(err)
	}
	if away = c.Nodes[0]; away == home {
		away = c.Nodes[1]
	}
	return home, away
}
