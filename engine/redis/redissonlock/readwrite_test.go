package redissonlock

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/internal/checked"
	"leasehold/lab/servers"
)

const rwChannel = "redisson_rwlock:{a}"

func TestReadersAndWritersAreLaidOutAsRedissonsAre(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	received := listening(t, r, rwChannel)
	j := program(t, r)

	w := join(t, e, exclusive("a"))
	if h := hash(t, r, "a"); !maps.Equal(h, map[string]string{"mode": "write", holder(w.ID) + ":write": "1"}) {
		t.Errorf("a writer: %v", h)
	}
	leave(t, e, w)
	only(t, r, received, rwChannel, rwChannel+" 1", rwChannel+" 0")

	one, two := join(t, e, reader("a")), join(t, e, reader("a"))
	if h := hash(t, r, "a"); !maps.Equal(h, map[string]string{"mode": "read", holder(one.ID): "1", holder(two.ID): "1"}) {
		t.Errorf("two readers: %v", h)
	}
	for _, c := range []engine.Claim{one, two} {
		key := "{a}:" + holder(c.ID) + ":rwlock_timeout:1"
		if v, left := do(t, r, "GET", key), do(t, r, "PTTL", key).(int64); v != "1" || left <= 0 || left > redistest.WaitTTL.Milliseconds() {
			t.Errorf("%s is %v, and ends in %d ms", key, v, left)
		}
	}
	j.read("a", "{a}:", 1, time.Minute)
	j.read("a", "{a}:", 2, 20*time.Second)
	leave(t, e, one)
	leave(t, e, two)
	if h := hash(t, r, "a"); !maps.Equal(h, map[string]string{"mode": "read", j.holder: "2"}) {
		t.Errorf("Redisson's reader is left: %v", h)
	}
	if left := do(t, r, "PTTL", "a").(int64); left < 50_000 || left > 60_000 {
		t.Errorf("Redisson's reader has a minute, and the lock %d ms", left)
	}
	if n := do(t, r, "DBSIZE"); n != int64(4) { // the lock, two entries, what is beside
		t.Errorf("%v keys: %v", n, do(t, r, "KEYS", "*"))
	}
	only(t, r, received, rwChannel)

	// The other way round: Redisson's leaves first.
	one = join(t, e, reader("a"))
	do(t, r, "DEL", "{a}:"+j.holder+":rwlock_timeout:1", "{a}:"+j.holder+":rwlock_timeout:2")
	do(t, r, "HDEL", "a", j.holder)
	leave(t, e, one)
	if n := do(t, r, "EXISTS", "a"); n != int64(0) {
		t.Error("nobody is left, and the lock is there")
	}
	only(t, r, received, rwChannel, rwChannel+" 0")

	t.Run("of a name with a tag", func(t *testing.T) {
		c := join(t, e, reader("{x}:7"))
		if v := do(t, r, "GET", "{x}:7:"+holder(c.ID)+":rwlock_timeout:1"); v != "1" {
			t.Errorf("its deadline is not where Redisson looks for it: %v", do(t, r, "KEYS", "*"))
		}
	})
}

func TestWriterWaitsForRedissonsReader(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	received := watch(t, e)
	j := program(t, r)
	j.read("a", "{a}:", 1, 10*time.Minute)
	mine := join(t, e, reader("a"))
	if mine.State != engine.Held {
		t.Fatalf("a reader beside Redisson's: %+v", mine)
	}
	if again := renew(t, e, mine, time.Second); again.Permits != 1 || again.Limit != engine.Max {
		t.Errorf("a reader is renewed as %+v", again)
	}
	w := join(t, e, exclusive("a"))
	if w.State != engine.Waiting || w.PollAfter < 9*time.Minute {
		t.Fatalf("a writer behind Redisson's reader: %+v", w)
	}
	if l := line(t, e, "a"); len(l) != 2 || l[0].Permits != 1 || l[0].Owner.Label != "Redisson "+j.holder || l[1].Ticket != mine.Ticket || l[1].Permits != 1 {
		t.Errorf("shown as %+v", l)
	}
	leave(t, e, mine)
	expect(t, received, func(n engine.Claim) bool { return n.ID == w.ID }) // the subscription stands
	do(t, r, "DEL", "a", "{a}:"+j.holder+":rwlock_timeout:1")
	do(t, r, "PUBLISH", rwChannel, "0")
	expect(t, received, func(n engine.Claim) bool { return n.ID == w.ID })
	if w = renew(t, e, w, time.Second); w.State != engine.Held || w.Permits != engine.Max {
		t.Errorf("told, and renewed as %+v", w)
	}
	if late := join(t, e, reader("a")); late.State != engine.Waiting {
		t.Errorf("a reader beside a writer: %+v", late)
	}
}

// TestDeadReaderIsOverWhenItsOwnDeadlinePasses: others keep the lock's hash.
func TestDeadReaderIsOverWhenItsOwnDeadlinePasses(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	q := reader("a")
	q.WaitTTL = 200 * time.Millisecond
	dead, lives := join(t, e, q), join(t, e, reader("a"))
	renew(t, e, lives, 20*time.Second)
	until(t, "its deadline does not pass", func() bool {
		return do(t, r, "EXISTS", "{a}:"+holder(dead.ID)+":rwlock_timeout:1") == int64(0)
	})
	if c := renew(t, e, dead, time.Second); c.State != engine.Gone {
		t.Errorf("renewed as %+v", c)
	}
	if l := line(t, e, "a"); len(l) != 1 || l[0].Ticket != lives.Ticket {
		t.Errorf("shown as %+v", l)
	}
	if s := leave(t, e, dead); s != engine.Gone {
		t.Errorf("left as %v", s)
	}
	again := join(t, e, q)
	if again.State != engine.Held || again.Ticket <= dead.Ticket {
		t.Errorf("made anew as %+v after %+v", again, dead)
	}
	w := join(t, e, exclusive("a"))
	until(t, "its deadline does not pass", func() bool {
		return do(t, r, "EXISTS", "{a}:"+holder(dead.ID)+":rwlock_timeout:1") == int64(0)
	})
	leave(t, e, lives) // the last that lives
	if w = renew(t, e, w, time.Second); w.State != engine.Held {
		t.Errorf("only a dead reader is left, and a writer is %+v", w)
	}
}

// TestReadersLockWithoutExpiryStaysSo: whoever has put it so holds it until somebody
// ends that, whatever readers come and go meanwhile.
func TestReadersLockWithoutExpiryStaysSo(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	stays, goes := join(t, e, reader("a")), join(t, e, reader("a"))
	do(t, r, "PERSIST", "a")
	for what, step := range map[string]func(){
		"a reader came":        func() { join(t, e, reader("a")) },
		"a reader was renewed": func() { renew(t, e, stays, 5*time.Second) },
		"a reader left":        func() { leave(t, e, goes) },
	} {
		if step(); do(t, r, "PTTL", "a") != int64(-1) {
			t.Fatalf("%s, and the lock has an expiry", what)
		}
	}
}

// TestReadersTTLIsWithinRedissonsWatchdog: its renewals put the deadline of the lock
// that all readers share to that, whatever others were granted.
func TestReadersTTLIsWithinRedissonsWatchdog(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for url, most := range map[string]time.Duration{"": 30 * time.Second, "&watchdog=10s": 10 * time.Second} {
		e, err := Open(within(t), "redisson://"+r.Addr+"?kind=readwrite"+url)
		if err != nil {
			t.Fatal(err)
		}
		e = checked.New(e)
		t.Cleanup(func() { e.Close() })
		if g := e.Guarantees(); g.MaxTTL != most {
			t.Errorf("%s: the longest TTL is %v", url, g.MaxTTL)
		}
		q := reader("a")
		q.WaitTTL = most + time.Second
		if _, err := e.Join(within(t), q); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s: a longer Join says %v", url, err)
		}
		q.WaitTTL = 5 * time.Second
		c := join(t, e, q)
		if cs, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: c.ID, Want: most + 1}}); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s: a longer Renew says %v %v", url, cs, err)
		}
		if c = renew(t, e, c, most); c.State != engine.Held || c.TTL != most {
			t.Errorf("%s: renewed for %v as %+v", url, most, c)
		}
		leave(t, e, c)
	}
	for _, url := range []string{"?kind=lock&watchdog=10s", "?kind=readwrite&watchdog=ten", "?kind=readwrite&watchdog=1ms", "?kind=spin", "?prefix=x"} {
		if _, err := Open(within(t), "redisson://"+r.Addr+url); err == nil {
			t.Errorf("%s was accepted", url)
		}
	}
}

// TestRevocationOfReaders ends those it names, and no other.
func TestRevocationOfReaders(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	received := listening(t, r, rwChannel)
	j := program(t, r)
	j.read("a", "{a}:", 1, time.Minute)
	one, two := join(t, e, reader("a")), join(t, e, reader("a"))
	for _, step := range []struct {
		ticket uint64
		now    bool
		left   int
	}{{one.Ticket, false, 3}, {one.Ticket, true, 2}, {0, true, 1}, {two.Ticket, true, 0}} {
		if err := e.Revoke(within(t), "a", step.ticket, step.now); err != nil {
			t.Errorf("Revoke %+v: %v", step, err)
		}
		if l := line(t, e, "a"); len(l) != step.left {
			t.Errorf("after Revoke %+v: %+v", step, l)
		}
	}
	for _, c := range []engine.Claim{one, two} {
		if c = renew(t, e, c, time.Second); c.State != engine.Gone || !c.Revoked {
			t.Errorf("renewed as %+v", c)
		}
	}
	only(t, r, received, rwChannel, rwChannel+" 0")
	if n := do(t, r, "KEYS", "*rwlock_timeout*").([]any); len(n) != 0 {
		t.Errorf("left: %v", n)
	}
}

// TestEveryRevokedReaderIsTold however many others were revoked after it, and how often.
// Its mark is all that ends it.
func TestEveryRevokedReaderIsTold(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e, err := Open(within(t), "redisson://"+r.Addr+"?kind=readwrite&watchdog=1h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	q := testutil.Lasting("a", time.Hour) // none may be over before the test is
	q.Permits = 1
	revoke := func(c engine.Claim) {
		t.Helper()
		if err := e.Revoke(within(t), "a", c.Ticket, false); err != nil {
			t.Fatal(err)
		}
	}
	var readers []engine.Claim
	for range 66 { // the last 64 marks are kept of whoever left
		q.ID = engine.NewID()
		readers = append(readers, join(t, e, q))
	}
	for _, c := range readers {
		revoke(c)
	}
	for range 65 {
		revoke(readers[65])
	}
	for i, c := range readers {
		if c = renew(t, e, c, time.Hour); c.State != engine.Gone || !c.Revoked {
			t.Errorf("reader %d of %d that were revoked is renewed as %v, revoked: %v", i, len(readers), c.State, c.Revoked)
		}
		leave(t, e, readers[i])
	}
	last := join(t, e, reader("a"))
	revoke(last)
	if marks := strings.Fields(do(t, r, "HGET", redisconn.KeyBeside(beside, "a"), "evicted").(string)); len(marks) != 64 {
		t.Errorf("%d marks are kept after all but one of 67 readers have left; want 64", len(marks))
	}
}

// TestReplacingOneOfTwoReaders leaves it, also where its place cannot be taken.
func TestReplacingOneOfTwoReaders(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	w := join(t, e, exclusive("a"))
	q := reader("a")
	q.Replaces = w.ID
	if c := join(t, e, q); c.State != engine.Held {
		t.Fatalf("a reader in place of a writer: %+v", c)
	}
	other := join(t, e, reader("a"))
	if other.State != engine.Held {
		t.Fatalf("another reader: %+v", other)
	}
	up := exclusive("a")
	up.Replaces = q.ID
	if c := join(t, e, up); c.State != engine.Waiting {
		t.Errorf("a writer in place of one of two readers: %+v", c)
	}
	if h := hash(t, r, "a"); !maps.Equal(h, map[string]string{"mode": "read", holder(other.ID): "1"}) {
		t.Errorf("left in the lock: %v", h)
	}
}

// TestLastLiveReaderDecides when the lock ends: others that died stay in its hash.
func TestLastLiveReaderDecides(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e, err := Open(within(t), "redisson://"+r.Addr+"?kind=readwrite&watchdog=10m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	received := listening(t, r, rwChannel)
	j := program(t, r)
	one, two := join(t, e, reader("a")), join(t, e, reader("a"))
	renew(t, e, one, 5*time.Minute)
	j.read("a", "{a}:", 1, time.Minute)
	if left := do(t, r, "PTTL", "a").(int64); left < 4*60_000 {
		t.Errorf("a reader has 5 min, and the lock %d ms", left)
	}
	leave(t, e, one)
	if left := do(t, r, "PTTL", "a").(int64); left > 60_000 {
		t.Errorf("a reader has a minute, and the lock %d ms", left)
	}
	do(t, r, "DEL", "{a}:"+j.holder+":rwlock_timeout:1") // as when its deadline passes
	leave(t, e, two)
	if do(t, r, "EXISTS", "a") != int64(0) {
		t.Errorf("only a dead reader of Redisson's is left, and the lock is %v", hash(t, r, "a"))
	}
	only(t, r, received, rwChannel, rwChannel+" 0")
}

// TestARenewalSaysWhetherItReads: Adopt takes no lease that is not what its handle says.
func TestARenewalSaysWhetherItReads(t *testing.T) {
	t.Parallel()
	e := readWrite.Opened(t, "redis://"+servers.Redis(t, nil).Addr)
	for _, r := range []engine.Request{reader("a"), exclusive("b")} {
		c := join(t, e, r)
		if got := renew(t, e, c, time.Minute); c.Permits != r.Permits || got.State != engine.Held || got.Permits != r.Permits || got.Limit != r.Limit {
			t.Errorf("%d permits of %d: joined as %+v, renewed as %+v", r.Permits, r.Limit, c, got)
		}
	}
}
