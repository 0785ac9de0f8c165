package redlock

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// at is one master's half, for requests that come late, twice or in another order.
type at struct {
	t    *testing.T
	e    *Engine
	r    *servers.RedisServer
	keys []string
}

func oneMaster(t *testing.T) at {
	t.Helper()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	return at{t, e, all[0], e.keys("a")}
}

func (a at) call(s *redisconn.Script, args ...string) []int64 {
	a.t.Helper()
	return a.on(s, a.keys, args...)
}

func (a at) on(s *redisconn.Script, keys []string, args ...string) []int64 {
	a.t.Helper()
	answer := a.e.masters[0].client.Call(within(a.t), s, redisconn.Call{Keys: keys, Args: args})
	if v, err := answer.AsIntSlice(); err == nil {
		return v
	}
	n, err := answer.AsInt64()
	if err != nil {
		a.t.Fatal(err)
	}
	return []int64{n}
}

// join is one request of phase 1.
func (a at) join(id engine.ID, ttl time.Duration, try uint64, proposal uint64) []int64 {
	a.t.Helper()
	return a.call(a.e.scripts.join, id.Secret(), parts.Millis(ttl), "", "", decimal(try), decimal(proposal), a.e.channel, "1")
}

func (a at) stamp(id engine.ID, ticket uint64) int64 {
	a.t.Helper()
	return a.on(a.e.scripts.stamp, a.keys[:2], id.Secret(), decimal(ticket))[0]
}

// giveUp is what a try that failed asks for.
func (a at) giveUp(id engine.ID, try uint64) {
	a.t.Helper()
	a.call(a.e.scripts.leave, id.Secret(), decimal(try), "", "a")
}

func (a at) revoke(ticket uint64, now string) int64 {
	a.t.Helper()
	return a.call(a.e.scripts.revoke, decimal(ticket), now, "a")[0]
}

func (a at) value() any { return valueOf(a.t, a.r, "a") }

// TestTheNumberOfATryOnlyRises: an earlier request comes again, late, and then what a
// try between them gives up. The claim is held by the latest.
func TestTheNumberOfATryOnlyRises(t *testing.T) {
	t.Parallel()
	a, id := oneMaster(t), engine.NewID()
	a.join(id, time.Minute, 5, 0)
	a.join(id, time.Minute, 3, 0)
	if a.giveUp(id, 4); a.value() != id.Secret() {
		t.Error("an earlier try has taken the lock from a later one")
	}
	if a.giveUp(id, 5); a.value() != nil {
		t.Error("void: what the latest gives up stands")
	}
}

// TestNoTryGivesUpWhatWasRenewed: a master took the lock late, for a try that had failed. A
// later try was granted by the others, and its renewal counted this master before what the
// first try gives up came.
func TestNoTryGivesUpWhatWasRenewed(t *testing.T) {
	t.Parallel()
	a, id := oneMaster(t), engine.NewID()
	a.join(id, time.Minute, 1, 0)
	if got := a.on(a.e.scripts.renew, a.keys[:2], id.Secret(), "60000"); engine.State(got[0]) != engine.Held {
		t.Fatalf("void: it is renewed as %v", got)
	}
	if a.giveUp(id, 1); a.value() != id.Secret() {
		t.Error("a try that failed has taken a vote back that a renewal relies on")
	}
	if a.call(a.e.scripts.leave, id.Secret(), "", "", "a"); a.value() != nil {
		t.Error("it is left for good, and stands")
	}
}

// TestARevokedClaimIsNotStamped, nor extended, nor taken again: its second phase comes
// after it was revoked.
func TestARevokedClaimIsNotStamped(t *testing.T) {
	t.Parallel()
	a, id := oneMaster(t), engine.NewID()
	a.join(id, time.Minute, 1, 0)
	if a.stamp(id, 6) != 1 || a.revoke(6, "0") != 1 {
		t.Fatal("void: it is not stamped, or not evicted")
	}
	for _, ticket := range []uint64{6, 7} {
		if a.stamp(id, ticket) != 0 {
			t.Errorf("stamped with %d", ticket)
		}
	}
	if n := counterOf(t, a.r, "a"); n != 6 {
		t.Errorf("the counter is %d", n)
	}
	if got := a.join(id, time.Minute, 2, 0); engine.State(got[0]) != engine.Gone {
		t.Errorf("asked for again: %v", got)
	}
}

// TestASilentMasterIsAskedForItsPatienceOnly: a further request does not begin that anew.
func TestASilentMasterIsAskedForItsPatienceOnly(t *testing.T) {
	m := newMaster("m", time.Hour)
	m.use(&redisconn.Client{})
	for i, want := range []bool{true, true, true, false} { // 0, 25, 50 and 75 minutes after the first
		if _, err := m.enter(false); (err == nil) != want {
			t.Errorf("request %d: %v", i+1, err)
		}
		m.received -= 25 * time.Minute
	}
	if m.leave(nil); m.owes == 0 {
		t.Fatal("void: it owes nothing")
	}
	if _, err := m.enter(false); err != nil {
		t.Errorf("it has answered: %v", err)
	}
}

// TestNothingShortensALifetime: a request for less comes after one for more.
func TestNothingShortensALifetime(t *testing.T) {
	t.Parallel()
	a, id := oneMaster(t), engine.NewID()
	stands := func(what string) {
		t.Helper()
		if ms := do(t, a.r, "PTTL", "a").(int64); ms < 30_000 {
			t.Errorf("after %s it stands for %d ms", what, ms)
		}
	}
	a.join(id, time.Minute, 1, 0)
	a.join(id, time.Second, 2, 0)
	stands("a Join")
	a.on(a.e.scripts.renew, a.keys[:2], id.Secret(), "1000")
	stands("a renewal")
	// The counter outlives the lock by far, or the next ticket could be lower.
	if left := time.Duration(do(t, a.r, "PTTL", a.keys[1]).(int64)) * time.Millisecond; left < keep {
		t.Errorf("the counter stands for %v", left)
	}
}

// TestTheMarkOfARevokedClaimIsItsOwn: the next one is asked for twice.
func TestTheMarkOfARevokedClaimIsItsOwn(t *testing.T) {
	t.Parallel()
	a, first, second := oneMaster(t), engine.NewID(), engine.NewID()
	a.join(first, time.Minute, 1, 0)
	if a.stamp(first, 6) != 1 || a.revoke(6, "1") != 1 {
		t.Fatal("void: it is not stamped, or not evicted")
	}
	for try := range uint64(2) {
		if got := a.join(second, time.Minute, try+1, 0); engine.State(got[0]) != engine.Held {
			t.Errorf("the next: %v", got)
		}
	}
	if a.stamp(second, 7) != 1 {
		t.Error("the next is not stamped")
	}
	if got := a.on(a.e.scripts.renew, a.keys[:2], second.Secret(), "1000"); engine.State(got[0]) != engine.Held {
		t.Errorf("the next is renewed as %v", got)
	}
}

// TestAMasterThatWasAwayAtTheOpeningJoins: later, by itself.
func TestAMasterThatWasAwayAtTheOpeningJoins(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	if err := all[2].Kill(); err != nil {
		t.Fatal(err)
	}
	e := openWithout(t, urlOf(easy, addrs(all)...))
	if err := all[2].Restart(true); err != nil {
		t.Fatal(err)
	}
	until(t, "it does not join", func() bool {
		c := join(t, e, long("a"))
		settled(t, e)
		defer leave(t, e, c)
		return standsOn(t, all, c) == 3
	})
}

// TestAMasterThatIsOnlyBusyAtTheOpeningJoins: it answers that it cannot serve now, which
// says no more of it than silence does.
func TestAMasterThatIsOnlyBusyAtTheOpeningJoins(t *testing.T) {
	t.Parallel()
	for state, c := range map[string]struct {
		begin, end func(t *testing.T, r *servers.RedisServer)
	}{
		"max number of clients": {
			func(t *testing.T, r *servers.RedisServer) { do(t, r, "CONFIG", "SET", "maxclients", "1") }, // do is that one
			func(t *testing.T, r *servers.RedisServer) { do(t, r, "CONFIG", "SET", "maxclients", "1000") },
		},
		"BUSY": {
			func(t *testing.T, r *servers.RedisServer) {
				do(t, r, "CONFIG", "SET", "lua-time-limit", "1")
				go func() {
					if other, err := servers.DialRedis(r.Socket, nil); err == nil {
						defer other.Close()
						other.Do("EVAL", "while true do end", "0") // until it is killed
					}
				}()
				until(t, "no script runs", func() bool {
					_, err := r.Do("PING")
					return err != nil && strings.Contains(err.Error(), "BUSY")
				})
			},
			func(t *testing.T, r *servers.RedisServer) {
				do(t, r, "SCRIPT", "KILL") // which is answered before the script has ended
				until(t, "the script still runs", func() bool { _, err := r.Do("PING"); return err == nil })
			},
		},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			all := masters(t, 3, nil)
			c.begin(t, all[0])
			_, err := Open(within(t), urlOf(easy, all[0].Addr, all[1].Addr, servers.Nobody))
			if err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), state) {
				t.Errorf("with one of three: %v", err)
			}
			e := openWithout(t, urlOf(easy, addrs(all)...))
			if err := e.Check(within(t)); errors.Is(err, engine.ErrRefused) {
				t.Errorf("it is said to be set otherwise than declared: %v", err)
			}
			c.end(t, all[0])
			until(t, "it does not join", func() bool {
				c := join(t, e, long("a"))
				settled(t, e)
				defer leave(t, e, c)
				return standsOn(t, all, c) == 3
			})
		})
	}
}

// TestWatchLastsAsLongAsAMajorityListens: it says once that it has begun, a minority that is
// cut off is no reason to disturb anybody, and then what the others tell is heard.
func TestWatchLastsAsLongAsAMajorityListens(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	var ps []*servers.Proxy
	var at []string
	for _, r := range all {
		ps = append(ps, servers.ProxyTo(t, r.Addr))
		at = append(at, ps[len(ps)-1].Addr)
	}
	e := open(t, urlOf(easy, at...))
	notified, over := make(chan engine.Claim, 100), make(chan error, 1)
	go func() { over <- e.Watch(within(t), func(c engine.Claim) { notified <- c }) }()
	next := func() (c engine.Claim) {
		select {
		case c = <-notified:
		case err := <-over:
			t.Fatalf("Watch ended: %v", err)
		case <-within(t).Done():
			t.Fatal("nothing is told")
		}
		return c
	}
	if c := next(); c.Name != "" {
		t.Errorf("it begins with %+v", c)
	}
	listeners := func(i int) int64 { return do(t, all[i], "PUBSUB", "NUMSUB", e.channel).([]any)[1].(int64) }
	for i := range all {
		until(t, "a master is not listened to", func() bool { return listeners(i) == 1 })
	}
	for _, r := range all { // a majority is enough to begin, and the client may not know of the last one yet
		id := engine.NewID()
		do(t, r, "PUBLISH", e.channel, id.Secret()+"a")
		if c := next(); c.ID != id {
			t.Errorf("told of %+v", c)
		}
	}
	ps[0].Reset()
	until(t, "it is not cut off", func() bool { return listeners(0) == 0 })
	id := engine.NewID()
	for _, r := range all[1:] {
		do(t, r, "PUBLISH", e.channel, id.Secret()+"a")
		if c := next(); c.ID != id || c.Name != "a" {
			t.Errorf("told of %+v", c)
		}
	}
	if n := listeners(0); n != 0 {
		t.Errorf("%d listen where it was cut off: Watch is one subscription", n)
	}
	ps[1].Reset()
	if err := redistest.Ended(t, over); err == nil || !strings.Contains(err.Error(), "majority") {
		t.Errorf("Watch: %v", err)
	}
	if len(notified) > 0 {
		t.Errorf("told besides: %+v", <-notified)
	}
}

// TestAMasterThatComesLateIsListenedTo, and one that is away is no reason to wait.
func TestAMasterThatComesLateIsListenedTo(t *testing.T) {
	l := &listening{majority: 2, open: 2}
	began := 0
	l.began = func() { began++ }
	var why error
	l.broke = func(err error) { why = err }
	l.begins()
	l.begins()
	l.opened()
	l.begins()
	if began != 1 {
		t.Errorf("it began %d times", began)
	}
	l.ends(true, "one")
	if why != nil {
		t.Errorf("two of three listen, and it broke: %v", why)
	}
	l.ends(true, "two")
	if why == nil {
		t.Error("one of three listens, and it goes on")
	}
	// Before it has begun: where no majority can listen any more it is over.
	l, why = &listening{majority: 2, open: 3, began: func() {}, broke: func(err error) { why = err }}, nil
	l.ends(false, "one")
	if why != nil {
		t.Errorf("two may listen yet, and it broke: %v", why)
	}
	l.begins()
	l.ends(false, "two")
	if why == nil {
		t.Error("one may listen, and it goes on")
	}
}

// TestAMasterThatFailedIsAskedAgainSoon: it rests, or each call would dial.
func TestAMasterThatFailedIsAskedAgainSoon(t *testing.T) {
	m := newMaster("m", time.Hour)
	m.use(&redisconn.Client{})
	if _, err := m.enter(false); err != nil {
		t.Fatal(err)
	}
	down := &net.OpError{Op: "dial", Err: errors.New("refused")}
	m.leave(down)
	if rest := m.rests - m.received; rest <= 0 || rest > time.Second {
		t.Errorf("it rests for %v", rest)
	}
	m.rests += time.Hour
	if _, err := m.enter(true); !errors.Is(err, down) {
		t.Errorf("while it rests: %v", err)
	}
	m.rests = 0
	if _, err := m.enter(false); err != nil {
		t.Errorf("it has rested: %v", err)
	}
}
