package redissonlock

import (
	"errors"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

func TestLockIsLaidOutAsRedissonsIs(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr)
	field := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9]+$`)
	for name, channel := range map[string]string{
		"stock": "redisson_lock__channel:{stock}", "{shop}:42": "redisson_lock__channel:{shop}:42", "a}b": "redisson_lock__channel:{a}b}",
	} {
		received := listening(t, r, channel)
		c := join(t, e, exclusive(name))
		for h, count := range hash(t, r, name) {
			if !field.MatchString(h) || count != "1" {
				t.Errorf("%q has the field %q: %q", name, h, count)
			}
		}
		if n := do(t, r, "HLEN", name); n != int64(1) {
			t.Errorf("%q has %v fields", name, n)
		}
		if left := do(t, r, "PTTL", name).(int64); left <= 0 || left > redistest.WaitTTL.Milliseconds() {
			t.Errorf("%q ends in %d ms", name, left)
		}
		if left := do(t, r, "PTTL", redisconn.KeyBeside(beside, name)).(int64); left < keep.Milliseconds() {
			t.Errorf("the last ticket of %q is forgotten in %d ms", name, left)
		}
		j := program(t, r)
		if ok, left := j.lock(name, time.Minute); ok || left <= 0 || left > redistest.WaitTTL.Milliseconds() {
			t.Errorf("held, and Redisson locks %q: %v, %d ms", name, ok, left)
		}
		if s := leave(t, e, engine.Claim{Name: name, ID: engine.NewID()}); s != engine.Gone {
			t.Errorf("who does not hold %q left as %v", name, s)
		}
		only(t, r, received, channel)
		leave(t, e, c)
		if n := do(t, r, "EXISTS", name); n != int64(0) {
			t.Errorf("%q was left and is there", name)
		}
		only(t, r, received, channel, channel+" 0")
		if ok, _ := j.lock(name, time.Minute); !ok {
			t.Errorf("%q was left, and Redisson cannot lock it", name)
		}
	}
}

// TestRepeatedJoinIsNoReentry: it would take two unlocks to free the lock.
func TestRepeatedJoinIsNoReentry(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for _, k := range []Kind{Lock, Fenced, ReadWrite} {
		e := of(k, "").Opened(t, "redis://"+r.Addr)
		name := "of kind " + string(k)
		q := exclusive(name)
		first := join(t, e, q)
		for range 3 {
			if again := join(t, e, q); again.Ticket != first.Ticket || again.State != engine.Held {
				t.Errorf("%s: joined as %+v, again as %+v", k, first, again)
			}
		}
		for f, count := range hash(t, r, name) {
			if f != "mode" && count != "1" {
				t.Errorf("%s: entered %s times", k, count)
			}
		}
		leave(t, e, first)
		if do(t, r, "EXISTS", name) != int64(0) {
			t.Errorf("%s: left once, and not free", k)
		}
	}
}

// TestOfTheDeadNothingIsKept: a name that is always in use would remember every holder
// that it had.
func TestOfTheDeadNothingIsKept(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for _, k := range []Kind{Lock, Fenced, ReadWrite} {
		e := of(k, "").Opened(t, "redis://"+r.Addr)
		name := "of kind " + string(k)
		for range 3 {
			if c := join(t, e, exclusive(name)); c.State != engine.Held {
				t.Fatalf("%s: %+v", k, c)
			}
			do(t, r, "DEL", name) // as when its deadline passes
		}
		c := join(t, e, exclusive(name))
		if known := hash(t, r, redisconn.KeyBeside(beside, name)); len(known) != 2 || known["last"] == "" || known[holder(c.ID)] == "" {
			t.Errorf("%s: beside the lock is %v", k, known)
		}
	}
}

// TestWaiterIsWokenByRedissonsMessageAlone: the holder's deadline is far, and every
// request is accounted for.
func TestWaiterIsWokenByRedissonsMessageAlone(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr)
	for _, text := range texts(Lock) {
		do(t, r, "SCRIPT", "LOAD", text)
	}
	received := watch(t, e)
	j := program(t, r)
	j.lock("a", 10*time.Minute)
	j.lock("a", 10*time.Minute)

	before := calls(t, r)
	c := join(t, e, exclusive("a"))
	if c.State != engine.Waiting || c.PollAfter < 9*time.Minute || c.PollAfter > 11*time.Minute {
		t.Fatalf("joined behind Redisson as %+v", c)
	}
	mine := func(n engine.Claim) bool { return n.ID == c.ID && n.State == engine.Waiting }
	expect(t, received, mine) // the subscription stands
	if c = renew(t, e, c, time.Minute); c.State != engine.Waiting {
		t.Fatalf("renewed as %+v", c)
	}
	if l := line(t, e, "a"); len(l) != 1 || l[0].Ticket != 0 || l[0].State != engine.Held ||
		l[0].Owner.Label != "Redisson "+j.holder+", entered 2 times" {
		t.Errorf("Redisson's hold is shown as %+v", l)
	}
	j.unlock("a", "redisson_lock__channel:{a}") // once of twice
	if n := do(t, r, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}").([]any)[1]; n != int64(1) {
		t.Errorf("%v listen", n)
	}
	j.unlock("a", "redisson_lock__channel:{a}")
	expect(t, received, mine)
	if c = renew(t, e, c, time.Minute); c.State != engine.Held {
		t.Fatalf("told, and renewed as %+v", c)
	}
	if n := calls(t, r) - before; n != 4 { // Join, Renew, Queue, Renew
		t.Errorf("%d requests", n)
	}
	leave(t, e, c)

	// The next wait for this name finds it listened to: one notification, no looking first.
	j.lock("a", 10*time.Minute)
	c = join(t, e, exclusive("a"))
	j.unlock("a", "redisson_lock__channel:{a}")
	expect(t, received, mine)
	if c = renew(t, e, c, time.Minute); c.State != engine.Held {
		t.Fatalf("told, and renewed as %+v", c)
	}
	if n := do(t, r, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}").([]any)[1]; n != int64(1) {
		t.Errorf("%v listen", n)
	}
}

func TestLockWithoutExpiryIsNeverTaken(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr)
	j := program(t, r)
	do(t, r, "HSET", "stuck", j.holder, "1")
	c := join(t, e, exclusive("stuck"))
	if c.State != engine.Waiting || c.PollAfter != 0 {
		t.Errorf("joined as %+v", c)
	}
	if l := line(t, e, "stuck"); len(l) != 1 || l[0].TTL != 0 || l[0].State != engine.Held {
		t.Errorf("shown as %+v", l)
	}
	if do(t, r, "PTTL", "stuck") != int64(-1) {
		t.Error("its expiry was changed")
	}
	if err := e.Revoke(within(t), "stuck", 0, false); !errors.Is(err, engine.ErrNoClaim) {
		t.Errorf("revoked by a mark that nobody sees: %v", err)
	}
	received := listening(t, r, "redisson_lock__channel:{stuck}")
	if err := e.Revoke(within(t), "stuck", 0, true); err != nil {
		t.Errorf("Revoke at once: %v", err)
	}
	only(t, r, received, "redisson_lock__channel:{stuck}", "redisson_lock__channel:{stuck} 0")
	if c = renew(t, e, c, time.Second); c.State != engine.Held {
		t.Errorf("who waited is %v", c.State)
	}
}

// TestOtherShapesAreNotTouched: beside what no lock could be, Redisson's own locks
// of another kind.
func TestOtherShapesAreNotTouched(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	j := program(t, r)
	shapes := map[string][]string{
		"a field without a thread":  {"b9f7c4bd", "1"},
		"a count that is no number": {j.holder, "one"},
		"a negative count":          {j.holder, "-1"},
		"two holders":               {j.holder, "1", j.holder + "1", "1"},
		"a mode alone":              {"mode", "read"},
		"settings with a mode":      {"mode", "read", "path", "/x"},
		"an unknown mode":           {"mode", "off", j.holder, "1"},
		"an absurd count":           {"mode", "read", j.holder, "1000000000"},
		"a lock that reads":         {"mode", "read", j.holder, "1"},
		"a lock":                    {j.holder, "1"},
		"a lock of a transaction":   {j.holder + ":0f3c-11", "1"},
	}
	known := map[Kind][]string{
		Lock: {"a lock", "a lock of a transaction"}, Fenced: {"a lock", "a lock of a transaction"},
		ReadWrite: {"a lock that reads", "a mode alone"},
	}
	for k, ours := range known {
		e := of(k, "").Opened(t, "redis://"+r.Addr)
		for shape, fields := range shapes {
			do(t, r, "FLUSHALL")
			do(t, r, append([]string{"HSET", "x"}, fields...)...)
			before := hash(t, r, "x")
			c, err := e.Join(within(t), exclusive("x"))
			mine := false
			for _, o := range ours {
				mine = mine || o == shape
			}
			if mine {
				do(t, r, "EXPIRE", "x", "60")
				if again, bad := e.Join(within(t), exclusive("x")); err != nil || bad != nil || c.State != engine.Waiting || again.State != engine.Waiting {
					t.Errorf("%s: on %s Join says %v %v, and where that expires %v %v", k, shape, c.State, err, again.State, bad)
				}
				if now := hash(t, r, "x"); !maps.Equal(now, before) {
					t.Errorf("%s: %s became %v", k, shape, now)
				}
				continue
			}
			if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), "kind") {
				t.Errorf("%s: on %s Join says %v %v", k, shape, c.State, err)
			}
			if _, err := e.Queue(within(t), "x"); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s: on %s Queue says %v", k, shape, err)
			}
			if err := e.Revoke(within(t), "x", 0, true); !errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrNoClaim) {
				t.Errorf("%s: on %s Revoke says %v", k, shape, err)
			}
			if s := leave(t, e, engine.Claim{Name: "x", ID: engine.NewID()}); s != engine.Gone {
				t.Errorf("%s: on %s Leave says %v", k, shape, s)
			}
			for l, err := range e.Queues(within(t), "") {
				t.Errorf("%s: of %s Queues shows %+v %v", k, shape, l, err)
			}
			if now := hash(t, r, "x"); !maps.Equal(now, before) {
				t.Errorf("%s: %s became %v", k, shape, now)
			}
		}
	}
}

// TestQueuesShowsRedissonsHoldsToo, and nothing that is none: not what is beside.
func TestQueuesShowsRedissonsHoldsToo(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr)
	j := program(t, r)
	j.lock("theirs", time.Minute)
	join(t, e, exclusive("ours"))
	do(t, r, "HSET", "settings", "mode", "read")
	got := map[string]string{}
	for l, err := range e.Queues(within(t), "") {
		if err != nil {
			t.Fatal(err)
		}
		got[l.Name] = l.Claims[0].Owner.Label
	}
	if want := map[string]string{"theirs": "Redisson " + j.holder, "ours": ""}; !maps.Equal(got, want) {
		t.Errorf("shown: %v", got)
	}
}

// TestFencedTokensRiseOverBothLanguages: Redisson counts on from ours, and we from
// its.
func TestFencedTokensRiseOverBothLanguages(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := fenced.Opened(t, "redis://"+r.Addr)
	const counter = "redisson_lock_token:{a}"
	last := int64(0)
	theirs := func() { // as lockAndGetToken, and unlock
		t.Helper()
		token := do(t, r, "INCR", counter).(int64)
		if token <= last {
			t.Errorf("Redisson's token %d follows %d", token, last)
		}
		last = token
	}
	ours := func() {
		t.Helper()
		q := exclusive("a")
		c := join(t, e, q)
		if again := join(t, e, q); again.Ticket != c.Ticket {
			t.Errorf("joined again, the ticket is %d, no longer %d", again.Ticket, c.Ticket)
		}
		if int64(c.Ticket) <= last {
			t.Errorf("ticket %d follows %d", c.Ticket, last)
		}
		last = int64(c.Ticket)
		if stored := do(t, r, "GET", counter); stored != itoa(last) {
			t.Errorf("the counter is %v, the ticket %d", stored, last)
		}
		if do(t, r, "PTTL", counter) != int64(-1) {
			t.Error("the counter expires, and Redisson would begin again at 1")
		}
		leave(t, e, c)
	}
	for range 3 {
		theirs()
		ours()
	}
	do(t, r, "SET", counter, "9007199254740991")
	if _, err := e.Join(within(t), exclusive("a")); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("beyond the last ticket: %v", err)
	}
	if do(t, r, "EXISTS", "a") != int64(0) {
		t.Error("refused, and locked")
	}
}

// TestTurnEndsWhenRedissonWaits: callers that queue in one Go program would hold the
// lock for as long as there are any.
func TestTurnEndsWhenRedissonWaits(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for k, channel := range map[Kind]string{
		Lock: "redisson_lock__channel:{lock}", Fenced: "redisson_lock__channel:{fenced}", ReadWrite: "redisson_rwlock:{readwrite}",
	} {
		name := string(k)
		e := of(k, "").Opened(t, "redis://"+r.Addr)
		received := watch(t, e)
		last := join(t, e, exclusive(name))
		instead := func() engine.Claim {
			q := exclusive(name)
			q.Replaces = last.ID
			last = join(t, e, q)
			return last
		}
		if last.Contended || instead().Contended || last.State != engine.Held {
			t.Errorf("%s: nobody else is there: %+v", k, last)
		}
		// That this client itself listens means nothing.
		own := join(t, e, exclusive(name))
		expect(t, received, func(c engine.Claim) bool { return c.ID == own.ID })
		leave(t, e, own)
		if c := renew(t, e, last, time.Second); c.Contended || instead().State != engine.Held {
			t.Errorf("%s: nobody else listens: %+v, in place of it %+v", k, c, last)
		}
		waits := listening(t, r, channel)
		if c := renew(t, e, last, time.Second); !c.Contended {
			t.Errorf("%s: Redisson waits, and the holder is %+v", k, c)
		}
		if instead(); last.State != engine.Waiting || last.PollAfter < 30*time.Millisecond || last.PollAfter > 90*time.Millisecond {
			t.Errorf("%s: Redisson waits, and in place of the holder is %+v", k, last)
		}
		if do(t, r, "EXISTS", name) != int64(0) {
			t.Errorf("%s: the turn is over, and the lock is not free", k)
		}
		notified := []string{channel + " 0"}
		if k == ReadWrite {
			notified = []string{channel + " 1", channel + " 0"}
		}
		only(t, r, waits, channel, notified...)
		if c := renew(t, e, last, time.Second); c.State != engine.Held {
			t.Errorf("%s: nobody took it, and who waits is %+v", k, c)
		}
	}
}

// TestReleaseBeforeTheAnswerIsNotified: between Redis' answer "taken" and the waiter's
// hearing of it the lock may become free, and nobody says so twice.
func TestReleaseBeforeTheAnswerIsNotified(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := locks.Opened(t, "redis://"+p.Addr)
	received := watch(t, e)
	program(t, r).lock("a", 10*time.Minute)
	first := join(t, e, exclusive("a"))
	expect(t, received, func(c engine.Claim) bool { return c.ID == first.ID }) // it is listened to

	q := exclusive("a")
	notified := make(chan error, 1)
	var once sync.Once
	p.OnCommand(func(name string) {
		if !strings.HasPrefix(name, "EVAL") {
			return
		}
		once.Do(func() {
			if _, err := r.Do("PUBLISH", "redisson_lock__channel:{a}", "0"); err != nil {
				notified <- err
				return
			}
			for late := time.After(10 * time.Second); ; {
				select {
				case c := <-received:
					if c.ID == q.ID {
						notified <- nil
						return
					}
				case <-late:
					notified <- errors.New("nobody tells the claim that asks")
					return
				}
			}
		})
	})
	if c := join(t, e, q); c.State != engine.Waiting {
		t.Errorf("joined as %+v", c)
	}
	if err := <-notified; err != nil {
		t.Error(err)
	}
}

// TestNamesThatNobodyWaitsForAreLeft: else a client would in the end be told of every
// release of every lock.
func TestNamesThatNobodyWaitsForAreLeft(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr)
	received := watch(t, e)
	names := []string{"a", "b", "c"}
	for range 2 { // what was left is listened to again
		var waits []engine.Claim
		for _, name := range names {
			do(t, r, "DEL", name)
			program(t, r).lock(name, time.Minute)
			c := join(t, e, exclusive(name))
			expect(t, received, func(n engine.Claim) bool { return n.ID == c.ID })
			waits = append(waits, c)
		}
		listen := func() (n int64) {
			for _, name := range names {
				n += do(t, r, "PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}").([]any)[1].(int64)
			}
			return n
		}
		if n := listen(); n != 3 {
			t.Errorf("%d of 3 are listened to", n)
		}
		for _, c := range waits {
			leave(t, e, c)
		}
		until(t, "nobody waits, and they are listened to", func() bool { return listen() == 0 })
	}
}

// TestALeaveWhoseAnswerWasLostDoesNotSayThatNothingWasThere: who waited may have held, by
// a Join whose answer was lost, and then that of its Leave was.
func TestALeaveWhoseAnswerWasLostDoesNotSayThatNothingWasThere(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := locks.Opened(t, "redis://"+p.Addr)
	leave(t, e, engine.Claim{Name: "a", ID: engine.NewID()}) // teaches Leave
	program(t, r).lock("a", time.Minute)
	waits := join(t, e, exclusive("a"))
	if waits.State != engine.Waiting {
		t.Fatalf("joined as %+v", waits)
	}
	do(t, r, "DEL", "a")
	do(t, r, "HSET", "a", holder(waits.ID), "1") // as a Join does whose answer is lost
	p.LoseReply("EVALSHA")
	if cs, err := e.Leave(within(t), []engine.Claim{waits}); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("left as %+v", cs)
	}
	if do(t, r, "EXISTS", "a") != int64(0) {
		t.Error("it still holds")
	}
	if err := e.Revoke(within(t), "a", 1, true); !errors.Is(err, engine.ErrNoClaim) { // teaches Revoke
		t.Errorf("Revoke: %v", err)
	}
	c := join(t, e, exclusive("a"))
	p.LoseReply("EVALSHA")
	if err := e.Revoke(within(t), "a", c.Ticket, true); err == nil || errors.Is(err, engine.ErrNoClaim) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("Revoke whose answer was lost says %v", err)
	}
}
