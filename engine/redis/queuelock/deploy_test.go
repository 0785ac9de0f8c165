package queuelock

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// TestFailoverIsReportedAsTheGuaranteesSay kills the primary right after it
// granted what its replica cannot have heard of (the replica is stopped and its
// link cut), 20 times in CI and once with -short, and counts who holds what afterwards. Both on one machine,
// so their clocks agree: tokens must rise although the grant is forgotten.
func TestFailoverIsReportedAsTheGuaranteesSay(t *testing.T) {
	t.Parallel()
	rounds := 3 // some six seconds each
	switch {
	case testing.Short():
		rounds = 1
	case os.Getenv("LEASEHOLD_REQUIRE") == "all":
		rounds = 20
	}
	s := servers.Sentinel(t, nil)
	a, b := open(t, sentinelURL(s)), open(t, sentinelURL(s))
	if f := a.Guarantees().Failover; f != engine.FailoverMayDouble {
		t.Fatalf("Guarantees say failover: %v", f)
	}
	doubled, last := 0, uint64(0)
	for round := range rounds {
		name := fmt.Sprint("failover ", round)
		primary, err := s.Primary()
		if err != nil {
			t.Fatal(err)
		}
		replica, err := s.Replica()
		if err != nil {
			t.Fatal(err)
		}
		if err := replica.Stop(); err != nil {
			t.Fatal(err)
		}
		// Stopped alone it would still find the grant in its socket's buffer.
		if _, err := primary.Do("CLIENT", "KILL", "TYPE", "replica"); err != nil {
			t.Fatal(err)
		}
		r := exclusive(name)
		r.WaitTTL = time.Minute
		first, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return a.Join(ctx, r) })
		if err != nil || first.State != engine.Held {
			t.Fatalf("round %d: %+v %v", round, first, err)
		}
		if err := primary.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := replica.Cont(); err != nil {
			t.Fatal(err)
		}
		q := exclusive(name)
		q.WaitTTL = time.Minute
		second, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return b.Join(ctx, q) })
		if err != nil {
			t.Fatalf("round %d: after the failover: %v", round, err)
		}
		if second.State == engine.Held {
			doubled++
		}
		if second.Ticket <= first.Ticket || first.Ticket <= last {
			t.Errorf("round %d: tickets %d, %d, then %d", round, last, first.Ticket, second.Ticket)
		}
		last = second.Ticket
		// The first holder learns of it at its next Renew, not before.
		lost, err := eventually(t, func(ctx context.Context) (engine.Claim, error) {
			cs, err := a.Renew(ctx, []engine.Renewal{{Name: name, ID: first.ID, Want: time.Minute}})
			if err != nil {
				return engine.Claim{}, err
			}
			return cs[0], nil
		})
		if err != nil || second.State == engine.Held && lost.State != engine.Gone {
			t.Errorf("round %d: the first holder is told %v %v", round, lost.State, err)
		}
		if err := s.Heal(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d failovers with an unreplicated grant: granted twice %d times, tickets rose every time", rounds, doubled)
	if doubled < rounds {
		t.Error("a grant survived that no replica had heard of: this test does not see what it is about")
	}
}

func TestReplicasMustAcknowledge(t *testing.T) {
	t.Parallel()
	s := servers.Sentinel(t, nil)
	s.Patient(t, time.Minute)
	e := open(t, sentinelURL(s)+"?replicas=1")
	received := watch(t, e)
	// A replica has a second to acknowledge: grants asks again.
	first := grants(t, e, long("a"))
	if first.State != engine.Held {
		t.Fatalf("joined as %v", first.State)
	}
	second := grants(t, e, long("a"))
	leave(t, e, first)
	expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })

	replica, err := s.Replica()
	if err != nil {
		t.Fatal(err)
	}
	// Its heartbeat of acknowledgements stops with it. Sentinel must not mind:
	// nothing fails over when a replica stops.
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	if c, err := e.Join(within(t), exclusive("b")); err == nil {
		t.Errorf("without a replica's word it is believed: %+v", c)
	}
	if _, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: second.ID, Want: time.Minute}}); err == nil {
		t.Error("a renewal without a replica's word is believed")
	}
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
	c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, exclusive("c")) })
	if err != nil || c.State != engine.Held {
		t.Errorf("when it is back: %+v %v", c, err)
	}
}

func TestOneDeadShardSpoilsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	e := open(t, clusterURL(c))
	var rs []engine.Renewal
	var cs []engine.Claim
	many := testutil.Sized(300, 120)
	for i := range many {
		r := exclusive(fmt.Sprint("lease ", i))
		r.WaitTTL = time.Minute
		cs = append(cs, join(t, e, r))
		rs = append(rs, engine.Renewal{Name: r.Name, ID: r.ID, Want: time.Minute})
	}
	// A shard: its primary and its replica.
	if err := c.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[4].Kill(); err != nil {
		t.Fatal(err)
	}
	on := func(name string) bool { // on the dead shard
		v, err := c.Nodes[0].Do("CLUSTER", "KEYSLOT", e.key(name))
		if err != nil {
			t.Fatal(err)
		}
		slot := v.(int64)
		return slot >= 16384/3 && slot < 16384*2/3
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	got, err := e.Renew(ctx, rs)
	if err == nil {
		t.Error("a dead shard is not reported")
	}
	learned := map[string]bool{}
	for _, c := range got {
		learned[c.Name] = true
		if c.State != engine.Held {
			t.Errorf("%q is %v", c.Name, c.State)
		}
	}
	dead := 0
	for _, c := range cs {
		if on(c.Name) {
			dead++
		}
		if learned[c.Name] == on(c.Name) {
			t.Fatalf("%q: its shard is dead: %v, learned: %v", c.Name, on(c.Name), learned[c.Name])
		}
	}
	if dead < many/6 || dead > many/2 {
		t.Errorf("%d of %d names are on one of three shards", dead, many)
	}
}

// TestMovingSlotKeepsItsQueues moves a slot with queues in it from one node to
// another, key by key, and uses the queues at every step.
func TestMovingSlotKeepsItsQueues(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	e := open(t, clusterURL(c))
	// Names of one slot.
	var names []string
	for i := 0; len(names) < 6; i++ {
		if n := fmt.Sprint("name ", i); bucket(n) == 42 {
			names = append(names, n)
		}
	}
	var held []engine.Claim
	for _, n := range names[:4] {
		r := exclusive(n)
		r.WaitTTL = time.Minute
		held = append(held, join(t, e, r))
	}
	use := func(when string) {
		t.Helper()
		var rs []engine.Renewal
		for _, h := range held {
			rs = append(rs, engine.Renewal{Name: h.Name, ID: h.ID, Want: time.Minute})
		}
		cs, err := e.Renew(within(t), rs)
		if err != nil || len(cs) != len(held) {
			t.Fatalf("%s: Renew: %v %v", when, cs, err)
		}
		for _, c := range cs {
			if c.State != engine.Held {
				t.Errorf("%s: %q is %v", when, c.Name, c.State)
			}
		}
		// A name that does not exist yet, and one that does.
		for _, n := range []string{names[4], names[5]} {
			fresh := join(t, e, exclusive(n))
			if fresh.State != engine.Held {
				t.Errorf("%s: a free name: %+v", when, fresh)
			}
			if s := leave(t, e, fresh); s != engine.Held {
				t.Errorf("%s: left as %v", when, s)
			}
		}
		if q := join(t, e, exclusive(names[0])); q.State != engine.Waiting {
			t.Errorf("%s: a held name: %+v", when, q)
		} else {
			leave(t, e, q)
		}
	}
	use("before")
	key := e.key(names[0])
	v, err := c.Nodes[0].Do("CLUSTER", "KEYSLOT", key)
	if err != nil {
		t.Fatal(err)
	}
	slot := fmt.Sprint(v)
	from, err := c.NodeOf(key)
	if err != nil {
		t.Fatal(err)
	}
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	do := func(n *servers.RedisServer, args ...string) any {
		t.Helper()
		v, err := n.Do(args...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return v
	}
	fromID, toID := do(from, "CLUSTER", "MYID").(string), do(to, "CLUSTER", "MYID").(string)
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	use("before the first key moves")
	host, port, _ := strings.Cut(to.Addr, ":")
	for i := 0; ; i++ {
		keys := do(from, "CLUSTER", "GETKEYSINSLOT", slot, "1").([]any)
		if len(keys) == 0 {
			break
		}
		do(from, "MIGRATE", host, port, keys[0].(string), "0", "5000")
		use(fmt.Sprint("after key ", i+1, " moved"))
	}
	for _, n := range []*servers.RedisServer{to, from} {
		do(n, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	use("after the move")
}

// TestHeldNotificationIsBelievedOnlyWithTheReplicas: one server's word that a claim holds
// is what a failover takes back.
func TestHeldNotificationIsBelievedOnlyWithTheReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Sentinel(t, nil)
	s.Patient(t, time.Minute)
	other, e := open(t, sentinelURL(s)), open(t, sentinelURL(s)+"?replicas=1")
	received := watch(t, e)
	first := join(t, other, long("a"))
	second := grants(t, e, long("a"))
	join(t, other, long("b"))
	later := grants(t, e, long("b"))
	replica, err := s.Replica()
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	leave(t, other, first) // tells e that it holds a
	if err := other.Revoke(within(t), "b", later.Ticket, false); err != nil {
		t.Fatal(err)
	}
	// What asks no replica is passed on in order.
	c := expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID || c.ID == later.ID })
	if c.ID == second.ID {
		t.Errorf("without a replica's word it is believed: %+v", c)
	}
	// A replica is waited for as long as here.
	if _, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: second.ID, Want: time.Minute}}); err == nil {
		t.Fatal("void: a replica acknowledges")
	}
	for len(received) > 0 {
		if c := <-received; c.ID == second.ID {
			t.Errorf("without a replica's word it is believed in the end: %+v", c)
		}
	}
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
	c, err = eventually(t, func(ctx context.Context) (engine.Claim, error) {
		cs, err := e.Renew(ctx, []engine.Renewal{{Name: "a", ID: second.ID, Want: time.Minute}})
		if err != nil {
			return engine.Claim{}, err
		}
		return cs[0], nil
	})
	if err != nil || c.State != engine.Held {
		t.Errorf("when it is back: %+v %v", c, err)
	}
}

// TestARenewalThatAsksReplicasWrites: from Redis 7.2 on, WAIT says of a connection that wrote
// nothing that every replica has it.
func TestARenewalThatAsksReplicasWrites(t *testing.T) {
	t.Parallel()
	s := servers.Sentinel(t, nil)
	s.Patient(t, time.Minute)
	other, e := open(t, sentinelURL(s)), open(t, sentinelURL(s)+"?replicas=1")
	primary, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	writes := func() int { return calls(t, primary, "hset", "pexpireat") }
	alone := grants(t, e, long("alone"))
	join(t, other, long("queue"))
	behind := grants(t, e, long("queue"))
	for _, c := range []engine.Claim{alone, behind} {
		before := writes()
		got, err := eventually(t, func(ctx context.Context) (engine.Claim, error) {
			cs, err := e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: engine.MinTTL}}) // it has more
			if err != nil {
				return engine.Claim{}, err // no replica has answered within a second
			}
			if len(cs) != 1 {
				t.Fatalf("%+v", cs)
			}
			return cs[0], nil
		})
		if err != nil || got.State != c.State {
			t.Fatalf("%+v, %v", got, err)
		}
		if writes() == before {
			t.Errorf("the renewal of %q, which is %v, writes nothing", c.Name, c.State)
		}
	}
}

// calls are how often a server has carried out some commands.
func calls(t *testing.T, r *servers.RedisServer, commands ...string) (n int) {
	t.Helper()
	for _, line := range strings.Fields(do(t, r, "INFO", "commandstats").(string)) {
		for _, command := range commands {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
				calls, _, _ := strings.Cut(rest, ",")
				m, err := strconv.Atoi(calls)
				if err != nil {
					t.Fatal(err)
				}
				n += m
			}
		}
	}
	return n
}

// TestEveryShardsReplicasMustAcknowledge: those of one say nothing of another.
func TestEveryShardsReplicasMustAcknowledge(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	e := open(t, clusterURL(c)+"?replicas=1")
	var rs []engine.Renewal
	lost := map[string]bool{}
	for i := range 12 {
		r := long(fmt.Sprint("lease ", i))
		if j := grants(t, e, r); j.State != engine.Held {
			t.Fatalf("joined as %+v", j)
		}
		rs = append(rs, engine.Renewal{Name: r.Name, ID: r.ID, Want: time.Minute})
		slot := do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", e.key(r.Name)).(int64)
		lost[r.Name] = slot >= 16384/3 && slot < 16384*2/3
	}
	if err := c.Nodes[4].Stop(); err != nil { // the replica of the second shard
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Nodes[4].Cont() })
	believed := map[string]bool{}
	until(t, "what other shards' replicas have acknowledged is not believed", func() bool {
		got, err := e.Renew(within(t), rs)
		if err == nil {
			t.Fatal("nobody says that a shard has no replica")
		}
		for _, g := range got {
			if believed[g.Name] = true; lost[g.Name] {
				t.Fatalf("%q is believed, and its shard has no replica", g.Name)
			}
		}
		for name, without := range lost {
			if !without && !believed[name] {
				return false
			}
		}
		return true
	})
}

// TestAShardWithoutItsReplicaDelaysNoNotificationOfAnother: each of its own notifications
// waits a second for the replica, in vain.
func TestAShardWithoutItsReplicaDelaysNoNotificationOfAnother(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	other, e := open(t, clusterURL(c)), open(t, clusterURL(c)+"?replicas=1")
	received, over := make(chan engine.Claim, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { over <- e.Watch(ctx, func(c engine.Claim) { received <- c }) }()
	defer cancel()
	expect(t, received, func(c engine.Claim) bool { return c.Name == "" })
	listens := slices.IndexFunc(c.Nodes, func(n *servers.RedisServer) bool {
		return len(do(t, n, "PUBSUB", "CHANNELS", e.channel).([]any)) > 0
	})
	sick := (listens + 1) % 3 // a primary, of a shard that does not pass on what is published

	const many = 100 // seconds, if one waited for the other: more than the patience of expect
	var held []engine.Claim
	var healthy engine.Claim // of e, on another shard
	for i := 0; len(held) <= many; i++ {
		r := testutil.Lasting(fmt.Sprint("lease ", i), time.Hour)
		primary, err := c.NodeOf(e.key(r.Name))
		if err != nil {
			t.Fatal(err)
		}
		if (primary == c.Nodes[sick]) != (len(held) < many) {
			continue // the healthy one is the last
		}
		held = append(held, join(t, other, r))
		r.ID = engine.NewID()
		healthy = grants(t, e, r)
	}
	if err := c.Nodes[sick+3].Stop(); err != nil { // its replica
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Nodes[sick+3].Cont() })
	before := calls(t, c.Nodes[sick], "eval", "evalsha")
	for _, h := range held[:many] {
		leave(t, other, h) // tells e that its claim holds
	}
	// The first Leave may teach the script.
	until(t, "no replica is asked", func() bool { return calls(t, c.Nodes[sick], "eval", "evalsha") > before+many+1 })
	leave(t, other, held[many])
	if n := expect(t, received, func(c engine.Claim) bool { return c.Name != "" }); n.ID != healthy.ID || n.State != engine.Held {
		t.Errorf("on a shard without its replica it is believed: %+v", n)
	}
	// Nor does the end of the subscription wait for what is not confirmed: nobody would listen.
	do(t, c.Nodes[listens], "CLIENT", "KILL", "TYPE", "pubsub")
	if err := ended(t, over); err == nil {
		t.Error("Watch says nothing of the end of its subscription")
	}
}
