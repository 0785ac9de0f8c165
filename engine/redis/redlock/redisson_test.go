package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// What stands on the masters, by the commands that RedissonRedLock comes down to. Live
// programs with Redisson are in lab/interop/redisson.

const easyRedisson = easy + "&layout=redisson"

// thread is one of a program with Redisson, whose client of the n-th master is this.
func thread(n int) string { return fmt.Sprintf("b9f7c4bd-7a9f-4f0c-9d4e-2f1b6f3a9c%02x:43", n) }

// enters is Redisson's tryLock on some masters, of which it has none yet.
func enters(t testing.TB, all []*servers.RedisServer, name string, on ...int) {
	t.Helper()
	for _, i := range on {
		do(t, all[i], "HINCRBY", name, thread(i), "1")
		do(t, all[i], "PEXPIRE", name, "30000")
	}
}

// exits is Redisson's unlock.
func exits(t testing.TB, all []*servers.RedisServer, name string, on ...int) {
	t.Helper()
	for _, i := range on {
		do(t, all[i], "DEL", name)
		do(t, all[i], "PUBLISH", "redisson_lock__channel:{"+name+"}", "0")
	}
}

// ear hears what is published on a channel of one server, as Redisson's waiters do.
func hearing(t *testing.T, r *servers.RedisServer, channel string) <-chan string {
	t.Helper()
	conn, cancel := redistest.Connect(t, r.Addr).Dedicate()
	t.Cleanup(cancel)
	received, began := make(chan string, 100), make(chan struct{}, 1)
	conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { received <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { began <- struct{}{} },
	})
	if err := conn.Do(t.Context(), conn.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	<-began
	return received
}

// told are the messages up to now.
func notified(t *testing.T, r *servers.RedisServer, received <-chan string, channel string) (all []string) {
	t.Helper()
	do(t, r, "PUBLISH", channel, "end")
	for timeout := time.After(20 * time.Second); ; {
		select {
		case m := <-received:
			if m == "end" {
				return all
			}
			all = append(all, m)
		case <-timeout:
			t.Fatalf("what was published last is not heard; before: %q", all)
		}
	}
}

// listeners waits until so many listen to a channel on each master.
func listeners(t *testing.T, all []*servers.RedisServer, channel string, n int64) {
	t.Helper()
	for _, r := range all {
		redistest.Until(t, fmt.Sprintf("%d listen", n), func() bool {
			return do(t, r, "PUBSUB", "NUMSUB", channel).([]any)[1] == n
		})
	}
}

// quiet waits until nothing has been heard for a while: that a subscription stands is
// a reason to look as well.
func quiet(received <-chan engine.Claim) {
	for {
		select {
		case <-received:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

func fieldOf(id engine.ID) string {
	h := id.Secret()
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + ":1"
}

// TestAHoldIsAnRLockOnEachMaster: to the letter, since others read and count it.
func TestAHoldIsAnRLockOnEachMaster(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	for name, channel := range map[string]string{
		"a": "redisson_lock__channel:{a}", "b{c}d": "redisson_lock__channel:b{c}d", "{": "redisson_lock__channel:{", "}": "redisson_lock__channel:{}}",
	} {
		received := hearing(t, all[2], channel)
		c := join(t, e, long(name))
		for _, r := range all {
			redistest.Until(t, "it stands on every master", func() bool { return do(t, r, "EXISTS", name) == int64(1) })
			if ms := do(t, r, "PTTL", name).(int64); ms < 50_000 || ms > 60_000 {
				t.Errorf("%s: it has %d ms", name, ms)
			}
		}
		again := join(t, e, func() engine.Request { r := long(name); r.ID = c.ID; return r }()) // as after a lost answer
		if c.State != engine.Held || again.State != engine.Held {
			t.Fatalf("%s: %+v, and again %+v", name, c, again)
		}
		for _, r := range all {
			if h := do(t, r, "HGETALL", name).([]any); len(h) != 2 || h[0] != fieldOf(c.ID) || h[1] != "1" {
				t.Errorf("%s: the lock is %q", name, h)
			}
			if ms := do(t, r, "PTTL", name).(int64); ms < 50_000 || ms > 60_000 {
				t.Errorf("%s: it has %d ms", name, ms)
			}
		}
		if s := leave(t, e, c); s != engine.Held {
			t.Errorf("%s: left as %v", name, s)
		}
		redistest.Until(t, "it is left", func() bool { return do(t, all[2], "EXISTS", name) == int64(0) })
		if got := notified(t, all[2], received, channel); len(got) != 1 || got[0] != "00" {
			t.Errorf("%s: published: %q", name, got)
		}
	}
	if n := redistest.Kit.Lasting(redistest.Kit{}, t, all[0]); n != 0 {
		t.Errorf("%d keys stay for ever", n)
	}
}

// TestTwoOfFiveAreNoMajority, three are: for Redisson, whose threads stand as another
// client on each master, and for us.
func TestTwoOfFiveAreNoMajority(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	line := func(name string) []engine.Claim {
		l, err := e.Queue(within(t), name)
		if err != nil {
			t.Fatal(err)
		}
		return l.Claims
	}
	enters(t, all, "two", 1, 3)
	if c := join(t, e, long("two")); c.State != engine.Held {
		t.Errorf("beside two of five: %+v", c)
	}
	if cs := line("two"); len(cs) != 1 || cs[0].Ticket == 0 {
		t.Errorf("beside two of five: %+v", cs)
	}
	for _, i := range []int{1, 3} {
		if h := do(t, all[i], "HGETALL", "two").([]any); h[0] != thread(i) {
			t.Errorf("Redisson's lock is %q now", h)
		}
	}
	enters(t, all, "three", 0, 2, 4)
	enters(t, all, "three", 0) // it has entered again
	received := hearing(t, all[1], "redisson_lock__channel:{three}")
	c := join(t, e, long("three"))
	if c.State != engine.Waiting || c.PollAfter < leastRetry || c.PollAfter > time.Second {
		t.Errorf("beside three of five: %+v", c)
	}
	for _, i := range []int{1, 3} {
		redistest.Until(t, "what a try took is given up", func() bool { return do(t, all[i], "EXISTS", "three") == int64(0) })
	}
	// Its waiters who found us there sleep until they are told.
	if got := notified(t, all[1], received, "redisson_lock__channel:{three}"); len(got) != 1 || got[0] != "00" {
		t.Errorf("told of what a try gave up: %q", got)
	}
	for _, i := range []int{0, 2, 4} {
		if h := do(t, all[i], "HGETALL", "three").([]any); h[0] != thread(i) {
			t.Errorf("Redisson's lock is %q now", h)
		}
	}
	cs := line("three")
	if len(cs) != 1 || cs[0].Ticket != 0 || cs[0].TTL < 20*time.Second || !strings.HasPrefix(cs[0].Owner.Label, "Redisson b9f7c4bd-") {
		t.Errorf("beside three of five: %+v", cs)
	}
	exits(t, all, "three", 0)
	if cs := line("three"); len(cs) != 0 {
		t.Errorf("two of five hold: %+v", cs)
	}
	if c = renew(t, e, c, time.Minute); c.State != engine.Held {
		t.Errorf("beside two of five: %+v", c)
	}
	// Of two threads neither has a majority.
	do(t, all[0], "HSET", "both", thread(0), "1")
	do(t, all[1], "HSET", "both", thread(1), "1")
	do(t, all[2], "HSET", "both", strings.TrimSuffix(thread(2), "43")+"44", "1")
	if cs := line("both"); len(cs) != 0 {
		t.Errorf("two threads with two and one of five hold: %+v", cs)
	}
}

// TestRedissonsReleaseIsHeard on whichever master it is told, also after connections
// were lost; and ours is not, since of ours one at a time is told.
func TestRedissonsReleaseIsHeard(t *testing.T) {
	t.Parallel()
	const channel = "redisson_lock__channel:{a}"
	all := masters(t, 3, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	received := redistest.Watch(t, e)
	enters(t, all, "a", 0, 1, 2)
	waits := join(t, e, long("a"))
	mine := func(c engine.Claim) bool { return c.ID == waits.ID && c.Name == "a" && c.State == engine.Waiting }
	for range all { // it has asked before the channel was listened to
		redistest.Expect(t, received, mine)
	}
	listeners(t, all, channel, 1)
	for _, r := range all {
		do(t, r, "PUBLISH", channel, "00")
	}
	select {
	case c := <-received:
		t.Errorf("a leasehold's release has it try: %+v", c)
	case <-time.After(200 * time.Millisecond):
	}
	for _, r := range all {
		do(t, r, "PUBLISH", channel, "0")
		redistest.Expect(t, received, mine)
	}
	for _, r := range all[:2] { // a majority: then Watch begins anew, on the third as well
		do(t, r, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	listeners(t, all, channel, 1)
	quiet(received)
	exits(t, all, "a", 0, 1, 2)
	redistest.Expect(t, received, mine)
	redistest.Until(t, "it can be had", func() bool {
		waits = renew(t, e, waits, time.Minute)
		return waits.State == engine.Held
	})
	quiet(received)
	do(t, all[0], "PUBLISH", channel, "0")
	select {
	case c := <-received:
		t.Errorf("who holds is told to try: %+v", c)
	case <-time.After(200 * time.Millisecond):
	}
	listeners(t, all, channel, 0) // some time after the last has waited
	// Who does not wait listens to nothing.
	r := long("b")
	r.NoWait = true
	enters(t, all, "b", 0, 1, 2)
	if c := join(t, e, r); c.State != engine.Gone {
		t.Errorf("%+v", c)
	}
	leave(t, e, join(t, e, long("c")))
	for _, name := range []string{"b", "c"} {
		if cs := e.ears.On(Redisson.channel(name)); len(cs) > 0 {
			t.Errorf("%s: %v are known, though nobody waits", name, cs)
		}
		for _, m := range e.masters {
			if e.hears(m, name) {
				t.Errorf("%s: it listens on %s, though nobody waits", name, m.name)
			}
		}
	}
}

// TestWhoListensWaits: a holder is told, and its turn ends when the claim is handed on
// within its client.
func TestWhoListensWaits(t *testing.T) {
	t.Parallel()
	const channel = "redisson_lock__channel:{a}"
	all := masters(t, 3, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	redistest.Watch(t, e)
	hands := func(from engine.Claim) engine.Claim {
		r := long("a")
		r.Replaces = from.ID
		return join(t, e, r)
	}
	holds := join(t, e, long("a"))
	if holds.Contended {
		t.Error("contended by nobody")
	}
	join(t, e, long("a")) // waits, and listens
	listeners(t, all, channel, 1)
	if holds = renew(t, e, holds, time.Minute); holds.State != engine.Held || holds.Contended {
		t.Errorf("contended by its own client: %+v", holds)
	}
	if holds = hands(holds); holds.State != engine.Held || holds.Contended {
		t.Errorf("handed on: %+v", holds)
	}
	beside := join(t, e, long("beside"))
	received := hearing(t, all[1], channel)
	cs, err := e.Renew(within(t), []engine.Renewal{{Name: "beside", ID: beside.ID, Want: time.Minute}, {Name: "a", ID: holds.ID, Want: time.Minute}})
	if err != nil || len(cs) != 2 || cs[0].Contended || cs[0].State != engine.Held || cs[1].State != engine.Held {
		t.Errorf("renewed: %+v %v", cs, err)
	}
	for range 2 { // on the others, too
		hearing(t, all[0], channel)
		hearing(t, all[2], channel)
	}
	cs, err = e.Renew(within(t), []engine.Renewal{{Name: "beside", ID: beside.ID, Want: time.Minute}, {Name: "a", ID: holds.ID, Want: time.Minute}})
	if err != nil || len(cs) != 2 || cs[0].Contended || !cs[1].Contended {
		t.Errorf("somebody listens: %+v %v", cs, err)
	}
	same := long("a")
	same.ID = holds.ID
	if c := join(t, e, same); c.State != engine.Held || !c.Contended {
		t.Errorf("somebody listens: %+v", c)
	}
	if next := hands(holds); next.State != engine.Waiting || next.PollAfter > 100*time.Millisecond {
		t.Errorf("handed on though somebody else waits: %+v", next)
	}
	for _, r := range all {
		redistest.Until(t, "it is free", func() bool { return do(t, r, "EXISTS", "a") == int64(0) })
	}
	if got := notified(t, all[1], received, channel); len(got) == 0 || got[0] != "00" {
		t.Errorf("told: %q", got)
	}
}

// TestASilentMasterHidesNobodyOnTheOthers: a client that does not wait any more is no
// listener on a master that has answered so, whatever another one has not.
func TestASilentMasterHidesNobodyOnTheOthers(t *testing.T) {
	t.Parallel()
	redistest.Rounds(t, silentMasterHidesNobody)
}

func silentMasterHidesNobody(t *testing.T) (void bool) {
	const channel = "redisson_lock__channel:{a}"
	all := masters(t, 3, nil)
	p := servers.ProxyTo(t, all[2].Addr)
	e := open(t, urlOf(easyRedisson, all[0].Addr, all[1].Addr, p.Addr))
	redistest.Watch(t, e)
	enters(t, all, "a", 0, 1, 2)
	c := join(t, e, long("a"))
	listeners(t, all, channel, 1)
	held := time.Now()
	p.HoldReply("UNSUBSCRIBE")
	exits(t, all, "a", 0, 1, 2)
	redistest.Until(t, "it can be had", func() bool {
		c = renew(t, e, c, time.Minute)
		return c.State == engine.Held
	})
	listeners(t, all, channel, 0) // some time after the last has waited
	for _, r := range all[:2] {
		hearing(t, r, channel)
	}
	silent := func() bool { return e.hears(e.masters[2], "a") } // until the engine gives it up
	redistest.Until(t, "it is contended", func() bool {
		c = renew(t, e, c, time.Minute)
		return c.Contended
	})
	same := long("a")
	same.ID = c.ID
	if c := join(t, e, same); c.State != engine.Held || !c.Contended {
		t.Errorf("somebody listens: %+v", c)
	}
	if !silent() {
		if redistest.GivenUp(held) {
			return true
		}
		t.Error("contended only after a master that was silent was given up")
	}
	p.ReleaseReply()
	redistest.Until(t, "it listens to nothing", func() bool { return !silent() })
	return false
}

// TestWhatIsNoRLockStays: a master where it is has no say, and where all have it the
// error names the key.
func TestWhatIsNoRLockStays(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	for i, put := range [][]string{
		{"SET", "", "v"},
		{"RPUSH", "", "v"},
		{"HSET", "", "f", "v"},
		{"HSET", "", "f", "1"},
		{"HSET", "", thread(0), "x"},
		{"HSET", "", thread(0), "1", thread(1), "1"},
		{"HSET", "", "mode", "read"},
	} {
		name := "n" + strconv.Itoa(i)
		put[1] = name
		do(t, all[0], put...)
		c := join(t, e, long(name))
		if c.State != engine.Held {
			t.Errorf("%q on one master: %+v", put, c)
		}
		if c = renew(t, e, c, time.Minute); c.State != engine.Held {
			t.Errorf("%q on one master: renewed as %+v", put, c)
		}
		if s := leave(t, e, c); s != engine.Held {
			t.Errorf("%q on one master: left as %v", put, s)
		}
		var before []any
		for _, r := range all {
			redistest.Until(t, "it is left", func() bool { return r == all[0] || do(t, r, "EXISTS", name) == int64(0) })
			if r != all[0] {
				do(t, r, put...)
			}
			before = append(before, do(t, r, "DUMP", name))
		}
		if c, err := e.Join(within(t), long(name)); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("%q: Join: %+v %v", put, c, err)
		}
		id := engine.NewID()
		if cs, err := e.Renew(within(t), []engine.Renewal{{Name: name, ID: id, Want: time.Second}}); err != nil || cs[0].State != engine.Gone {
			t.Errorf("%q: Renew: %v %v", put, cs, err)
		}
		if cs, err := e.Leave(within(t), []engine.Claim{{Name: name, ID: id}}); err != nil || cs[0].State != engine.Gone {
			t.Errorf("%q: Leave: %v %v", put, cs, err)
		}
		if err := e.Revoke(within(t), name, 0, true); err == nil {
			t.Errorf("%q: Revoke worked", put)
		}
		if l, err := e.Queue(within(t), name); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("%q: Queue: %+v %v", put, l, err)
		}
		for j, r := range all {
			if do(t, r, "DUMP", name) != before[j] || do(t, r, "TTL", name) != int64(-1) {
				t.Errorf("%q was changed", put)
			}
		}
	}
}

// TestRedissonsHoldIsEndedAtOnce, or not at all: it sees no mark.
func TestRedissonsHoldIsEndedAtOnce(t *testing.T) {
	t.Parallel()
	const channel = "redisson_lock__channel:{a}"
	all := masters(t, 3, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	main := []string{"b9f7c4bd-7a9f-4f0c-9d4e-2f1b6f3a9c00:1", "b9f7c4bd-7a9f-4f0c-9d4e-2f1b6f3a9c01:1", "c9f7c4bd-7a9f-4f0c-9d4e-2f1b6f3a9c02:1"}
	for i, r := range all {
		do(t, r, "HSET", "a", main[i], "1") // the first thread of a program, and no expiry
	}
	l, err := e.Queue(within(t), "a")
	if err != nil || len(l.Claims) != 1 || l.Claims[0].TTL != 0 || !strings.HasSuffix(l.Claims[0].Owner.Label, ":1") {
		t.Errorf("the queue: %+v %v", l, err)
	}
	if c := join(t, e, long("a")); c.State != engine.Waiting {
		t.Errorf("a lock without expiry is %v", c.State)
	}
	received := hearing(t, all[0], channel)
	if err := e.Revoke(within(t), "a", 0, false); !errors.Is(err, engine.ErrNoClaim) || !strings.Contains(err.Error(), "at once") {
		t.Errorf("with a notice: %v", err)
	}
	if err := e.Revoke(within(t), "a", 7, true); !errors.Is(err, engine.ErrNoClaim) {
		t.Errorf("with somebody's ticket: %v", err)
	}
	if err := e.Revoke(within(t), "a", 0, true); err != nil {
		t.Error(err)
	}
	for _, r := range all {
		redistest.Until(t, "it is gone", func() bool { return do(t, r, "EXISTS", "a") == int64(0) })
	}
	if got := notified(t, all[0], received, channel); len(got) != 1 || got[0] != "00" {
		t.Errorf("told: %q", got)
	}
	mine := join(t, e, long("a"))
	settled(t, e) // it is on every master
	if err := e.Revoke(within(t), "a", mine.Ticket, true); err != nil {
		t.Error(err)
	}
	redistest.Until(t, "it is revoked there", func() bool { return do(t, all[0], "EXISTS", "a") == int64(0) })
	if got := notified(t, all[0], received, channel); len(got) != 1 || got[0] != "00" {
		t.Errorf("told of ours: %q", got)
	}
	if c := renew(t, e, mine, time.Second); c.State != engine.Gone || !c.Revoked {
		t.Errorf("after Revoke: %+v", c)
	}
}

// TestLayoutsShareNothing, and what a layout has not is refused.
func TestLayoutsShareNothing(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	red, sync := open(t, urlOf(easyRedisson, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
	if g := red.Guarantees(); g.Fencing != engine.FencingNone {
		t.Errorf("tokens that Redisson's holders do not have: %v", g.Fencing)
	}
	if sync.Guarantees().Fencing != engine.FencingMemory {
		t.Error("redsync's layout has lost its tokens")
	}
	if red.keys("a")[1] == sync.keys("a")[1] || red.keys("a")[2] == sync.keys("a")[2] {
		t.Errorf("%q and %q", red.keys("a"), sync.keys("a"))
	}
	join(t, red, long("a"))
	if _, err := sync.Join(within(t), long("a")); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("a name that is an RLock: %v", err)
	}
	names := func(e *Engine) (all []string) {
		for l, err := range e.Queues(within(t), "") {
			if err != nil {
				t.Error(err)
			}
			all = append(all, l.Name)
		}
		return all
	}
	join(t, sync, long("b"))
	if r, s := names(red), names(sync); len(r) != 1 || r[0] != "a" || len(s) != 1 || s[0] != "b" {
		t.Errorf("queues: %q %q", r, s)
	}
	for params, want := range map[string]string{
		"layout=redisson&prefix=p:": "leave the prefix out", "layout=curator": "redsync (the default) or redisson",
	} {
		if e, err := Open(within(t), urlOf(params, addrs(all)...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", params, e, err)
		}
	}
}

const aclRedisson = "user app on >secret ~* &leasehold:redlock:* &redisson_lock__channel:* +eval +evalsha +time +get +mget +set +del " +
	"+pttl +pexpire +exists +hlen +hgetall +hmget +hset +zadd +zcard +zrem +zpopmin +scan +publish +subscribe +unsubscribe " +
	"+pubsub +info +config|get +ping +hello +auth +select"

func TestLeastPrivilegeRedisson(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, &servers.RedisOptions{ACL: []string{aclRedisson}})
	redistest.Documented(t, aclRedisson[strings.Index(aclRedisson, "~"):])
	url := strings.Replace(urlOf("timeout=2s&max-ttl=5s&layout=redisson", addrs(all)...), "://", "://app:secret@", 1)
	a, b := open(t, url), open(t, url)
	voting(t, a)
	voting(t, b)
	received := redistest.Watch(t, b)
	first := join(t, a, longest("x"))
	second := join(t, b, longest("x"))
	listeners(t, all, "redisson_lock__channel:{x}", 1)
	if c := renew(t, a, first, 5*time.Second); !c.Contended {
		t.Errorf("%+v", c)
	}
	leave(t, a, first)
	redistest.Expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID })
	renew(t, b, second, 5*time.Second)
	third := join(t, a, longest("y"))
	if err := b.Revoke(within(t), "y", third.Ticket, true); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	for _, err := range a.Queues(within(t), "") {
		if err != nil {
			t.Errorf("Queues: %v", err)
		}
	}
	leave(t, b, second)
	listeners(t, all, "redisson_lock__channel:{x}", 0)
	for _, r := range all {
		if log := do(t, r, "ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("refused: %v", log)
		}
		do(t, r, "ACL", "SETUSER", "unheard", "reset", "on", ">p", "~*", "&*", "+@all", "-subscribe")
		do(t, r, "ACL", "SETUSER", "deaf", "reset", "on", ">p", "~*", "&leasehold:redlock:*", "+@all")
	}
	for _, who := range []string{"deaf", "unheard"} {
		url := strings.Replace(urlOf(easyRedisson, addrs(all)...), "://", "://"+who+":p@", 1)
		if e, err := Open(within(t), url); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("who hears no release: %v %v", e, err)
		}
	}
}

// TestTransactionsHold: of Redisson's, which put their number behind the thread's.
func TestTransactionsHold(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easyRedisson, addrs(all)...))
	for i, r := range all {
		do(t, r, "HSET", "a", thread(i)+":0a1b2c3d-0000-4000-8000-0a1b2c3d4e5f", "1")
	}
	if c := join(t, e, long("a")); c.State != engine.Waiting {
		t.Errorf("%+v", c)
	}
	if l, err := e.Queue(within(t), "a"); err != nil || len(l.Claims) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// TestRedissonRestart: a master that has just started may have forgotten, in this
// layout as in the other.
func TestRedissonRestart(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf("timeout=2s&layout=redisson", addrs(all)...))
	if c, err := e.Join(within(t), long("a")); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "do not vote") {
		t.Errorf("granted by masters that may have forgotten: %+v %v", c, err)
	}
	for _, r := range all {
		if do(t, r, "EXISTS", "a") != int64(0) {
			t.Error("it was taken")
		}
	}
}

// TestAClaimIsKnownBeforeItAsks: a release may be told before its answer is here.
func TestAClaimIsKnownBeforeItAsks(t *testing.T) {
	t.Parallel()
	e := open(t, urlOf(easyRedisson, addrs(masters(t, 3, nil))...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	known := 0
	for i := range 10 {
		r := long("a" + strconv.Itoa(i))
		if _, err := e.Join(ctx, r); err == nil {
			continue // the answers were faster
		}
		if cs := e.ears.On("redisson_lock__channel:{" + r.Name + "}"); len(cs) != 1 || cs[0].ID != r.ID {
			t.Errorf("%s: known: %+v", r.Name, cs)
		}
		known++
	}
	if known == 0 {
		t.Error("void: every Join was answered")
	}
}

// TestVotesAreGuarded in every layout, and only what votes: a master that was restarted
// since it was looked at refuses the script itself.
func TestVotesAreGuarded(t *testing.T) {
	for _, l := range []Layout{Redsync, Redisson} {
		with, without := newScripts(true, l), newScripts(false, l)
		if with.join.Text() == without.join.Text() || with.stamp.Text() == without.stamp.Text() ||
			with.renew.Text() == without.renew.Text() || with.retake.Text() == without.retake.Text() {
			t.Errorf("%s: a script that votes is not guarded", l)
		}
		if with.leave.Text() != without.leave.Text() {
			t.Errorf("%s: a restarted master does not give up what it has", l)
		}
	}
}
