package redlock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

var until = redistest.Until

func (e *Engine) joins(r engine.Request) func(context.Context) (engine.Claim, error) {
	return func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, r) }
}

// asOf asks a master for its vote in the belief that it is still a given run.
func (e *Engine) asOf(r *servers.RedisServer, s *redisconn.Script, run string) error {
	call := (&try{e: e, r: &request{Request: exclusive("a")}, keys: e.keys("a")}).joining()
	_, err := r.Do(slices.Concat([]string{"EVAL", s.Text(), "3"}, call.Keys, call.Args, []string{run})...)
	return err
}

// valueOf is what a lock's key has on one master.
func valueOf(t *testing.T, r *servers.RedisServer, name string) any {
	t.Helper()
	return do(t, r, "GET", name)
}

// record is what is beside a lock that nobody holds, as beside.lua packs it.
func record(counter uint64) string {
	b := append(binary.BigEndian.AppendUint64([]byte("L1"), counter), make([]byte, 24)...)
	return string(b) + strings.Repeat("-", 64)
}

// counterOf is the highest ticket that one master has stamped; 0 where none is: a
// majority is believed before the last master has answered.
func counterOf(t *testing.T, r *servers.RedisServer, name string) uint64 {
	t.Helper()
	packed, ok := do(t, r, "GET", side+"b:"+name).(string)
	if !ok {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(packed)[2:])
}

func TestAMinorityThatIsDownIsNotMissed(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	a, b := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
	first := join(t, a, long("a"))
	until(t, "it is not on all", func() bool { return standsOn(t, all, first) == 5 }) // also on those that are left
	for _, r := range all[:2] {
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	late := openWithout(t, urlOf(easy, addrs(all)...)) // opens without them too
	second := join(t, b, long("a"))
	if second.State != engine.Waiting || join(t, late, long("a")).State != engine.Waiting {
		t.Fatalf("with two of five down: %+v", second)
	}
	if c := renew(t, a, first, 20*time.Second); c.State != engine.Held || c.Ticket != first.Ticket {
		t.Errorf("renewed as %+v", c)
	}
	if l, err := b.Queue(within(t), "a"); err != nil || len(l.Claims) != 1 || l.Claims[0].Ticket != first.Ticket {
		t.Errorf("the queue is %+v %v", l, err)
	}
	if s := leave(t, a, first); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	second = redistest.Renew(t, b, second, time.Second)
	if second.State != engine.Held || second.Ticket <= first.Ticket {
		t.Errorf("the next is %+v after %d", second, first.Ticket)
	}

	// One more, and nothing is known.
	if err := all[2].Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Join(within(t), long("b"))
	if err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "3 are needed") {
		t.Errorf("with a majority down: Join: %v", err)
	}
	if cs, err := b.Renew(within(t), []engine.Renewal{{Name: "a", ID: second.ID, Want: time.Second}}); err == nil || len(cs) > 0 {
		t.Errorf("with a majority down: Renew: %v %v", cs, err)
	}
	b.restores.mu.Lock()
	if n := len(b.restores.m); n != 0 {
		t.Errorf("%d renewals that proved nothing are remembered", n)
	}
	b.restores.mu.Unlock()
	if _, err := Open(within(t), urlOf(easy, addrs(all)...)); err == nil || !strings.Contains(err.Error(), "3 are needed") {
		t.Errorf("with a majority down: Open: %v", err)
	}
}

// TestASlowMasterDoesNotSlowTheRest: a call that waited for it would take longer than a
// round may.
func TestASlowMasterDoesNotSlowTheRest(t *testing.T) {
	const rounds = 60
	for name, slow := range map[string]func(t *testing.T, r *servers.RedisServer, p *servers.Proxy) (end func()){
		"stopped": func(t *testing.T, r *servers.RedisServer, _ *servers.Proxy) func() {
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			return func() { r.Cont() }
		},
		"far away": func(_ *testing.T, _ *servers.RedisServer, p *servers.Proxy) func() {
			p.Delay(30 * time.Second)
			return func() { p.Delay(0) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := masters(t, 5, nil)
			at := addrs(all)
			p := servers.ProxyTo(t, at[4])
			at[4] = p.Addr
			e := open(t, urlOf("timeout=10s&restart-delay=off", at...))
			leave(t, e, join(t, e, long("warm")))
			end := slow(t, all[4], p)
			defer end()
			for range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
				c, err := e.Join(ctx, long("a"))
				if err != nil || c.State != engine.Held {
					t.Fatalf("Join: %+v %v", c, err)
				}
				if cs, err := e.Leave(ctx, []engine.Claim{c}); err != nil || cs[0].State != engine.Held {
					t.Fatalf("Leave: %+v %v", cs, err)
				}
				cancel()
			}
			m := e.masters[4]
			m.mu.Lock()
			owes := m.owes
			m.mu.Unlock()
			if owes == 0 {
				t.Fatal("void: the slow one owes no answer")
			}
			end()
			// What it takes late was given up long ago.
			until(t, "the slow one keeps the lock", func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.owes == 0 && valueOf(t, all[4], "a") == nil
			})
		})
	}
}

// TestALateSuccessIsLeft: a master takes the lock for a try that has ended.
func TestALateSuccessIsLeft(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	const ttl = 30 * time.Minute // longer than this test waits
	url := urlOf(easy+"&max-ttl=30m", addrs(all)...)
	a, b := open(t, url), open(t, url)
	held := join(t, a, long("a"))
	until(t, "the last master does not take it", func() bool { return valueOf(t, all[2], "a") == held.ID.Secret() })
	do(t, all[2], "DEL", "a")
	if err := all[2].Stop(); err != nil {
		t.Fatal(err)
	}
	r := long("a")
	r.NoWait, r.WaitTTL = true, ttl
	if c := join(t, b, r); c.State != engine.Gone {
		t.Fatalf("refused as %+v", c)
	}
	m := b.masters[2]
	until(t, "void: the stopped one owes no answer", func() bool { // who was refused by two has asked it, or does now
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.owes > 0
	})
	all[2].Cont()
	until(t, "it is kept", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.owes == 0 && valueOf(t, all[2], "a") == nil
	})
	if n := do(t, all[2], "EXISTS", side+"b:a"); n != int64(1) {
		t.Error("void: it never took the lock")
	}
}

// TestAnEarlierTryDoesNotLeaveALaterOne: what one try gives up late, another has
// been granted meanwhile.
func TestAnEarlierTryDoesNotLeaveALaterOne(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	r := long("a")
	first := &try{e: e, r: &request{Request: r}, number: e.tries.Add(1), keys: e.keys("a")}
	c := join(t, e, r)
	leaves := func(one *try, wrong string) { // no renewal: after one, no try gives the claim up
		t.Helper()
		for i, r := range all {
			until(t, "a master does not hear of it", func() bool { return e.late.of([]engine.Claim{c}) == nil })
			one.leave(&ballot{master: i, sent: true, state: engine.Held})
			if valueOf(t, r, "a") == nil {
				t.Error(wrong)
			}
		}
	}
	leaves(first, "an earlier try's Leave takes it away")
	between := &try{e: e, r: &request{Request: r}, number: e.tries.Add(1), keys: e.keys("a")}
	if got := join(t, e, r); got.State != engine.Held || got.Ticket != c.Ticket { // its answer was lost, so to speak
		t.Fatalf("asked again, it is %+v", got)
	}
	leaves(between, "a try that has it already was not noted: an earlier one's Leave takes it away")
	second := &try{e: e, r: &request{Request: r}, number: e.tries.Add(1), keys: e.keys("a")}
	for i := range e.masters {
		second.leave(&ballot{master: i, sent: true, state: engine.Held})
	}
	if got := renew(t, e, c, time.Second); got.State != engine.Gone {
		t.Errorf("void: its own Leave left it %v", got.State)
	}
}

// TestAClientThatIsCutOffBlocksForOneTTL: it never hears that it was granted.
func TestAClientThatIsCutOffBlocksForOneTTL(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	var at []string
	var proxies []*servers.Proxy
	for _, r := range all {
		p := servers.ProxyTo(t, r.Addr)
		proxies, at = append(proxies, p), append(at, p.Addr)
	}
	teach(t, all)
	a, b := open(t, urlOf(easy, at...)), open(t, urlOf(easy, addrs(all)...))
	leave(t, a, join(t, a, exclusive("warm")))
	for _, p := range proxies {
		p.DropReplies(true) // whatever goes through from now on is not answered
	}
	r := exclusive("a")
	r.WaitTTL = 2 * time.Second
	gone, cut := context.WithCancel(t.Context())
	go a.Join(gone, r)
	taken := func() (n int) {
		for _, r := range all {
			if valueOf(t, r, "a") != nil {
				n++
			}
		}
		return n
	}
	until(t, "void: no majority took it", func() bool { return taken() >= 3 })
	a.close() // it dies
	cut()
	for _, r := range all {
		if ttl := do(t, r, "PTTL", "a").(int64); ttl > 2000 {
			t.Errorf("the key stands for %d ms", ttl)
		}
	}
	// Keys of another name have no expiry, as SET NX alone would leave them: that one
	// is in the way for good.
	for _, r := range all {
		do(t, r, "SET", "for good", "dead")
	}
	c := join(t, b, exclusive("a"))
	for c.State == engine.Waiting {
		time.Sleep(c.PollAfter)
		c = renew(t, b, c, 3*time.Second)
	}
	if c.State != engine.Held {
		t.Errorf("the next is %+v", c)
	}
	if c := join(t, b, exclusive("for good")); c.State != engine.Waiting {
		t.Errorf("void: what has no expiry is not in the way either: %+v", c)
	}
}

// TestTicketsRiseOverOtherMajorities: the masters that granted last are not those
// that grant now.
func TestTicketsRiseOverOtherMajorities(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	leave(t, e, join(t, e, exclusive("a")))
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	for name, n := range map[string]int{"one": 1, "two": 2, "three": 3, "all": 5} {
		for _, r := range all[:n] {
			do(t, r, "SET", side+"b:"+name, record(ahead), "PX", "60000")
		}
		c := join(t, e, exclusive(name))
		if c.State != engine.Held {
			t.Fatalf("%s: %+v", name, c)
		}
		if n >= 3 && c.Ticket <= ahead {
			t.Errorf("%s: ticket %d after %d", name, c.Ticket, ahead)
		}
		kept := 0
		for _, r := range all {
			if counter := counterOf(t, r, name); counter >= c.Ticket {
				kept++
			}
		}
		if kept < 3 {
			t.Errorf("%s: %d masters know of ticket %d", name, kept, c.Ticket)
		}
	}
}

// TestAReleaseIsAnnounced: to one of those who wait, and to the next if that one
// is gone.
func TestAReleaseIsAnnounced(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	a, dead, b := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
	received := redistest.Watch(t, b)
	leave(t, b, join(t, b, long("warm"))) // it knows the masters' clocks, and comes last
	first := join(t, a, long("a"))
	until(t, "it is not on all", func() bool { return standsOn(t, all, first) == 5 })
	for range 3 {
		if c := join(t, dead, long("a")); c.State != engine.Waiting {
			t.Fatalf("%+v", c)
		}
	}
	second := join(t, b, long("a"))
	if second.State != engine.Waiting || second.PollAfter < leastRetry {
		t.Fatalf("waits as %+v", second)
	}
	dead.close()
	leave(t, a, first)
	redistest.Expect(t, received, func(c engine.Claim) bool {
		return c.ID == second.ID && c.Name == "a" && c.State == engine.Waiting
	})
	if c := renew(t, b, second, time.Second); c.State != engine.Held || c.Ticket <= first.Ticket {
		t.Errorf("told, and renewed as %+v", c)
	}
}

// TestEveryReleaseTellsSomebodyWhoStillWaits: not who has held since it was noted, and
// not only who does not want it any more. With a lost announcement the next polls
// only when its own time comes.
func TestEveryReleaseTellsSomebodyWhoStillWaits(t *testing.T) {
	t.Parallel()
	at := urlOf(easy, addrs(masters(t, 3, nil))...)
	var es [4]*Engine
	var received [4]<-chan engine.Claim
	for i := range es {
		es[i] = open(t, at)
		received[i] = redistest.Watch(t, es[i])
		leave(t, es[i], join(t, es[i], long("warm"))) // it knows the masters' clocks
	}
	ahead := es[0].clock.ahead.Load()
	notified := func(t *testing.T, i int, c engine.Claim) {
		t.Helper()
		redistest.Expect(t, received[i], func(got engine.Claim) bool { return got.ID == c.ID })
	}
	line := func(t *testing.T, name string) (cs [4]engine.Claim) {
		for i := range cs {
			es[i].clock.ahead.Store(ahead) // what each knows would differ by what an answer takes
			if cs[i] = join(t, es[i], long(name)); (cs[i].State == engine.Held) != (i == 0) {
				t.Fatalf("%d: %+v", i, cs[i])
			}
			settled(t, es[i]) // it waits on every master
		}
		return cs
	}
	t.Run("who has held since it was noted", func(t *testing.T) {
		// The renewal of a claim that waits notes it anew, by the clock as its engine knows it.
		renew := func(t *testing.T, i int, c engine.Claim) engine.Claim {
			t.Helper()
			es[i].clock.ahead.Store(ahead)
			return renew(t, es[i], c, time.Minute)
		}
		cs := line(t, "held")
		leave(t, es[0], cs[0])
		notified(t, 1, cs[1])
		if cs[2] = renew(t, 2, cs[2]); cs[2].State != engine.Held { // its look came first
			t.Fatalf("%+v", cs[2])
		}
		if cs[1] = renew(t, 1, cs[1]); cs[1].State != engine.Waiting {
			t.Fatalf("%+v", cs[1])
		}
		leave(t, es[2], cs[2])
		notified(t, 1, cs[1])
		if cs[1] = renew(t, 1, cs[1]); cs[1].State != engine.Held {
			t.Fatalf("%+v", cs[1])
		}
		leave(t, es[1], cs[1])
		notified(t, 3, cs[3])
	})
	t.Run("who was told and left", func(t *testing.T) {
		cs := line(t, "left")
		leave(t, es[0], cs[0])
		notified(t, 1, cs[1])
		leave(t, es[1], cs[1])
		notified(t, 2, cs[2])
	})
}

// TestAClientWithAWrongIdeaOfTheTimeGivesNoTicketOfIts: numbers would be used up.
func TestAClientWithAWrongIdeaOfTheTimeGivesNoTicketOfIts(t *testing.T) {
	t.Parallel()
	e := open(t, urlOf(easy, addrs(masters(t, 3, nil))...))
	first := join(t, e, exclusive("a"))
	leave(t, e, first)
	e.clock.ahead.Add(time.Hour.Microseconds())
	second := join(t, e, exclusive("a"))
	if second.State != engine.Held || second.Ticket <= first.Ticket {
		t.Fatalf("%+v after %+v", second, first)
	}
	if by := time.Duration(second.Ticket-first.Ticket) * time.Microsecond; by > time.Hour/2 {
		t.Errorf("the ticket has jumped by %v", by)
	}
}

// TestOneTicketIsGivenOnce: a claim may not have the ticket that a master has given
// to an earlier one.
func TestOneTicketIsGivenOnce(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	keys, id, client := e.keys("a"), engine.NewID().Secret(), e.masters[0].client
	do(t, all[0], "SET", keys[1], record(5))
	if err := client.Call(within(t), e.scripts.join, redisconn.Call{Keys: keys, Args: []string{id, "9000", "", "", "1", "0", "", "0"}}).Error(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ticket, want int64 }{{5, 0}, {6, 1}, {6, 1}, {5, 0}} {
		got, err := client.Call(within(t), e.scripts.stamp, redisconn.Call{Keys: keys[:2], Args: []string{id, decimal(uint64(c.ticket))}}).AsInt64()
		if err != nil || got != c.want {
			t.Errorf("ticket %d above a counter that was 5: %d %v, not %d", c.ticket, got, err, c.want)
		}
	}
}

// TestAProposalIsAboveTheCounterAndNearTheClock: or it would be another claim's ticket,
// or one below those that were given before the counter was forgotten.
func TestAProposalIsAboveTheCounterAndNearTheClock(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	at := uint64(time.Now().Add(near / 2).UnixMicro()) // and stays so while this test is quick
	for name, c := range map[string]struct {
		proposal, counter, want uint64
	}{
		"one that is above it":     {at, at - 1, at},
		"the counter itself":       {at, at, 0},
		"one that is below it":     {at, at + 1, 0},
		"one of an hour ago":       {uint64(time.Now().Add(-time.Hour).UnixMicro()), 5, 0},
		"one that is an hour away": {uint64(time.Now().Add(time.Hour).UnixMicro()), 5, 0},
	} {
		keys := e.keys(name)
		do(t, all[0], "SET", keys[1], record(c.counter))
		a := e.masters[0].client.Call(within(t), e.scripts.join, redisconn.Call{Keys: keys, Args: []string{
			engine.NewID().Secret(), "9000", "", "", "1", decimal(c.proposal), "", "0",
		}})
		b := &ballot{}
		if err := b.read(a); err != nil || b.state != engine.Held {
			t.Fatalf("%s: %+v %v", name, b, err)
		}
		switch {
		case b.stamp == c.want:
		case c.want != 0 && b.clock+boottime.Now() > time.Duration(at)*time.Microsecond:
			t.Logf("%s: it was too late for that", name)
		default:
			t.Errorf("%s is stamped as %d, not %d", name, b.stamp, c.want)
		}
	}
}

// TestWhatTookAllButTheDriftIsNotHeld: masters whose clocks are faster may be about to
// grant it to somebody else.
func TestWhatTookAllButTheDriftIsNotHeld(t *testing.T) {
	const ttl = time.Hour
	e := &Engine{majority: 2, masters: make([]*master, 3)}
	for took, held := range map[time.Duration]bool{0: true, ttl - 2*drift(ttl): true, ttl - drift(ttl)/2: false} {
		all := tally{stamps: map[uint64]int{}}
		for i := range e.masters {
			all.add(ballot{master: i, sent: true, state: engine.Held, stamp: 7, left: ttl})
		}
		r := exclusive("a")
		r.WaitTTL = ttl
		c, err := (&try{e: e, r: &request{Request: r}, start: boottime.Now() - took}).decide(within(t), &all)
		if got := err == nil && c.State == engine.Held && c.Ticket == 7; got != held {
			t.Errorf("after %v of %v: %+v %v", took, ttl, c, err)
		}
	}
}

// TestWhoDoesNotWaitIsToldNothing: a release that is announced to it would wake nobody.
func TestWhoDoesNotWaitIsToldNothing(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	url := urlOf(easy, addrs(all)...)
	join(t, open(t, url), long("a"))
	e := open(t, url)
	r := long("a")
	r.NoWait = true
	if c := join(t, e, r); c.State != engine.Gone {
		t.Fatalf("refused as %+v", c)
	}
	for _, r := range all {
		if n := do(t, r, "ZCARD", e.keys("a")[2]); n != int64(0) {
			t.Errorf("%d are noted as waiting", n)
		}
	}
}

// TestWhenTheNextTryIs: behind a leasehold that is long after, since its release is
// told; and soon where nobody tells it.
func TestWhenTheNextTryIs(t *testing.T) {
	e := &Engine{majority: 2, masters: make([]*master, 3)}
	const never, long, soon = -1, time.Hour, 5 * time.Millisecond
	waits := func(ours bool, left time.Duration) ballot {
		return ballot{sent: true, state: engine.Waiting, ours: ours, left: left}
	}
	for name, c := range map[string]struct {
		said []ballot
		soon bool
	}{
		"a leasehold holds":                           {[]ballot{waits(true, long), waits(true, long), waits(true, long)}, false},
		"a leasehold holds, and one is nearly over":   {[]ballot{waits(true, soon), waits(true, long), waits(true, long)}, false},
		"a leasehold holds, and is nearly over":       {[]ballot{waits(true, soon), waits(true, soon), waits(true, long)}, true},
		"another program holds":                       {[]ballot{waits(false, never), waits(false, never), waits(false, never)}, true},
		"another program holds, and one is left over": {[]ballot{waits(true, long), waits(false, never), waits(false, never)}, true},
		"two tried at once":                           {[]ballot{{sent: true, state: engine.Held}, waits(true, long), waits(true, long)}, true},
	} {
		all := tally{stamps: map[uint64]int{}}
		for _, b := range c.said {
			all.add(b)
		}
		if look := (&try{e: e, start: boottime.Now()}).pause(&all); (look < leastRetry) != c.soon {
			t.Errorf("%s: after %v", name, look)
		}
	}
}

// TestALockThatTookTooLongIsNotHeld: the masters say yes when the time that they
// granted is over.
func TestALockThatTookTooLongIsNotHeld(t *testing.T) {
	t.Parallel()
	var proxies []*servers.Proxy
	var at []string
	for _, r := range masters(t, 3, nil) {
		p := servers.ProxyTo(t, r.Addr)
		proxies, at = append(proxies, p), append(at, p.Addr)
	}
	e := open(t, urlOf(easy, at...))
	leave(t, e, join(t, e, exclusive("b"))) // so that it knows the masters' clocks
	var c engine.Claim
	var err error
	for range 20 { // the masters stamp a request only if it comes soon after it was made
		settled(t, e)
		for _, p := range proxies {
			p.Forget()
			p.HoldReply("EVALSHA")
		}
		r := exclusive("a")
		r.WaitTTL = engine.MinTTL
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			c, err = e.Join(within(t), r)
		}()
		for _, p := range proxies {
			until(t, "a master is not asked", func() bool { return p.Commands()["EVALSHA"] > 0 })
		}
		time.Sleep(2 * engine.MinTTL)
		for _, p := range proxies {
			p.ReleaseReply()
		}
		if <-answered; err != nil || c.State == engine.Held {
			break
		}
		leave(t, e, c)
	}
	if err == nil || !strings.Contains(err.Error(), "too much of a TTL") {
		t.Errorf("asked for %v, answered after twice that: %+v %v", engine.MinTTL, c, err)
	}
}

// TestTwoOfFiveThatLostItDoNotDecide: with one that is silent nothing is known, and
// when it answers three extend it.
func TestTwoOfFiveThatLostItDoNotDecide(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	e := open(t, urlOf("timeout=2s&restart-delay=off", addrs(all)...)) // the silent one is waited for
	c := join(t, e, long("a"))
	for _, r := range all {
		until(t, "a master does not take it", func() bool { return valueOf(t, r, "a") == c.ID.Secret() })
	}
	settled(t, e)
	do(t, all[0], "DEL", "a")
	do(t, all[1], "DEL", "a")
	if err := all[4].Stop(); err != nil {
		t.Fatal(err)
	}
	want := []engine.Renewal{{Name: "a", ID: c.ID, Want: 20 * time.Second}}
	if got, err := e.Renew(within(t), want); err == nil || len(got) != 0 {
		t.Errorf("two extend it, two lost it, one is silent: %+v %v", got, err)
	}
	if err := all[4].Cont(); err != nil {
		t.Fatal(err)
	}
	until(t, "three do not extend it", func() bool {
		got, err := e.Renew(within(t), want)
		return err == nil && got[0].State == engine.Held
	})
}

// TestAMasterIsLeftAfterItsLateAnswer: before, the lock might be taken there after it
// was given up.
func TestAMasterIsLeftAfterItsLateAnswer(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	c := join(t, e, long("a"))
	for _, r := range all {
		until(t, "a master does not take it", func() bool { return valueOf(t, r, "a") == c.ID.Secret() })
	}
	late := &try{e: e, r: &request{Request: engine.Request{ID: c.ID}}, ballots: []*ballot{nil, {master: 1}, {master: 2}}, owed: 1}
	late.notified.L = &late.mu
	e.late.add(late)
	if s := leave(t, e, c); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	leave(t, e, join(t, e, long("b")))
	if valueOf(t, all[0], "a") == nil {
		t.Error("it was left before it answered")
	}
	late.answered(&ballot{master: 0})
	until(t, "it stands", func() bool { return valueOf(t, all[0], "a") == nil })
}

// TestALaterTryIsLeftThoughAnEarlierOneEnds: the answer that an earlier try still waited
// for is none to the later one.
func TestALaterTryIsLeftThoughAnEarlierOneEnds(t *testing.T) {
	var l lateTries
	id := engine.NewID()
	first, second := &try{r: &request{Request: engine.Request{ID: id}}}, &try{r: &request{Request: engine.Request{ID: id}}}
	l.add(first)
	l.add(second)
	l.forget(first)
	if got := l.of([]engine.Claim{{ID: id}}); !slices.Equal(got, []*try{second}) {
		t.Errorf("who leaves waits for %v", got)
	}
	if l.forget(second); len(l.m) > 0 {
		t.Error("what was answered is remembered")
	}
}

// TestEachWaitsForTheMasterItAskedAbout: several wait for answers to one try.
func TestEachWaitsForTheMasterItAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &try{ballots: make([]*ballot, 3), owed: 4} // so it is never over
		x.notified.L = &x.mu
		var received [3]bool
		for i := range received {
			go func() {
				x.wait(i)
				received[i] = true
			}()
			synctest.Wait()
		}
		for i := len(received) - 1; i >= 0; i-- { // who began to wait first is answered last
			x.answered(&ballot{master: i})
			synctest.Wait()
			if !received[i] {
				t.Errorf("who waits for master %d does not hear that it has answered", i)
			}
		}
		x.notified.Broadcast()
	})
}

// TestWhatAMasterOwesIsBounded: what may stand there is given up also where nothing else
// is asked any more, up to a bound of its own.
func TestWhatAMasterOwesIsBounded(t *testing.T) {
	for _, c := range []struct {
		owes int
		must bool
		want bool
	}{
		{mostOwed - 1, false, true}, {mostOwed, false, false}, {mostOwed, true, true}, {mostMusts, true, false},
	} {
		m := newMaster("m", time.Hour)
		m.use(&redisconn.Client{})
		m.owes, m.received = c.owes, boottime.Now()
		if _, err := m.enter(c.must); (err == nil) != c.want {
			t.Errorf("with %d owed, must %v: %v", c.owes, c.must, err)
		}
	}
}

// TestAMasterThatIsReachedAfterCloseIsClosed: its connection would outlast the engine.
func TestAMasterThatIsReachedAfterCloseIsClosed(t *testing.T) {
	t.Parallel()
	r := masters(t, 1, nil)[0]
	target, err := redisconn.ParseURL("redis://" + r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := redisconn.Dial(within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := newMaster("m", time.Hour)
	m.close()
	m.use(c)
	if err := c.Ask(within(t), "PING").Error(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("it is asked: %v", err)
	}
}

// TestAMasterThatIsLetAloneIsToldWhatIsLeft: it owes answers for too long, and what it
// granted would stand there for a whole TTL.
func TestAMasterThatIsLetAloneIsToldWhatIsLeft(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	m := e.masters[0]
	alone := func() {
		t.Helper()
		m.mu.Lock()
		m.owes, m.received = m.owes+1, boottime.Now()-time.Hour
		m.mu.Unlock()
		if _, err := m.enter(false); err == nil {
			t.Fatal("void: it is not let alone")
		}
	}
	for name, leave := range map[string]func(r engine.Request, c engine.Claim){
		"a claim": func(_ engine.Request, c engine.Claim) { leave(t, e, c) },
		"a try": func(r engine.Request, _ engine.Claim) {
			(&try{e: e, r: &request{Request: r}, number: e.tries.Add(1), keys: e.keys(r.Name)}).leave(&ballot{sent: true, state: engine.Held})
		},
	} {
		r := exclusive(name)
		r.WaitTTL = time.Minute // longer than this test waits
		c := join(t, e, r)
		until(t, "it is not there", func() bool { return valueOf(t, all[0], name) == c.ID.Secret() && e.late.of([]engine.Claim{c}) == nil })
		alone()
		leave(r, c)
		until(t, name+" stands", func() bool { return valueOf(t, all[0], name) == nil })
		m.leave(nil)
	}
}

// TestAMinorityDoesNotDecideWhatBecameOfAClaim: with two of five silent, or one of three,
// the next answer may turn it.
func TestAMinorityDoesNotDecideWhatBecameOfAClaim(t *testing.T) {
	for _, c := range []struct {
		masters, held, gone int
		want                bool
	}{
		{3, 1, 1, false}, {3, 2, 0, true}, {3, 0, 2, true}, {3, 0, 1, false},
		{5, 2, 2, false}, {5, 3, 0, true}, {5, 2, 3, true}, {4, 2, 1, false}, {4, 0, 2, true},
	} {
		e := &Engine{majority: c.masters/2 + 1, masters: make([]*master, c.masters)}
		if got := e.settled(&extension{lefts: make([]time.Duration, c.held), gone: c.gone}); got != c.want {
			t.Errorf("renewed by %d, gone on %d of %d: settled %v", c.held, c.gone, c.masters, got)
		}
		if got := e.departed(&departure{held: c.held, gone: c.gone}); got != c.want {
			t.Errorf("left on %d, gone on %d of %d: departed %v", c.held, c.gone, c.masters, got)
		}
	}
}

// TestAnUnclearLeaveIsNotSaidToBeGone: one of three lost the claim, and the others are
// silent; and one whose answer was lost says gone because of the first attempt.
func TestAnUnclearLeaveIsNotSaidToBeGone(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	gone := e.masters[0].client.Call(within(t), redisconn.NewScript("return {3, 0}"), redisconn.Call{Keys: []string{"any"}})
	var sure, indeterminate departure
	sure.add(gone)
	gone.Indeterminate = errors.New("the answer was lost")
	indeterminate.add(gone)
	if sure.gone != 1 || indeterminate.gone != 0 {
		t.Errorf("gone on %d, and unsure on %d", sure.gone, indeterminate.gone)
	}

	c := join(t, e, long("a"))
	for _, r := range all {
		until(t, "it is not on all", func() bool { return valueOf(t, r, "a") == c.ID.Secret() })
	}
	do(t, all[0], "DEL", "a")
	for _, r := range all[1:] {
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		defer r.Cont()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if cs, err := e.Leave(ctx, []engine.Claim{c}); err == nil || len(cs) > 0 {
		t.Errorf("one says gone, and two say nothing: %+v %v", cs, err)
	}
}

// TestATicketIsNotLostWhereAMasterHasNone: it took the lock again after a higher one was
// stamped there, or what was beside the lock was lost.
func TestATicketIsNotLostWhereAMasterHasNone(t *testing.T) {
	var got extension
	for _, stamp := range []int64{7, 0} {
		(&extended{known: []bool{true}, values: []int64{int64(engine.Held), stamp, 1000}}).add(0, &got)
	}
	if got.stamp != 7 || len(got.lefts) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestWhatMayStandIsLeft: a master whose answer was lost may have taken the lock.
func TestWhatMayStandIsLeft(t *testing.T) {
	lost := errors.New("the answer was lost")
	for _, c := range []struct {
		b    ballot
		want bool
	}{
		{ballot{sent: true, err: lost}, true}, {ballot{sent: true, state: engine.Held}, true},
		{ballot{sent: true, state: engine.Waiting}, false}, {ballot{err: lost}, false},
	} {
		if got := c.b.mayStand(); got != c.want {
			t.Errorf("%+v: %v", c.b, got)
		}
	}
}

// TestADeadHolderStandsNoLongerThanItAskedFor: a clock that steps back puts the expiry
// of a key ahead, and who waits puts it right.
func TestADeadHolderStandsNoLongerThanItAskedFor(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	url := urlOf(easy, addrs(all)...)
	dead := join(t, open(t, url), long("a"))
	for _, r := range all {
		until(t, "a master does not take it", func() bool { return valueOf(t, r, "a") == dead.ID.Secret() })
		do(t, r, "PEXPIRE", "a", "3600000")
	}
	if c := join(t, open(t, url), long("a")); c.State != engine.Waiting {
		t.Fatalf("beside a holder: %+v", c)
	}
	for _, r := range all {
		until(t, "the expiry stays ahead", func() bool { return do(t, r, "PTTL", "a").(int64) <= dead.TTL.Milliseconds() })
	}
}

// TestWhatAMajorityGrants: of the longest lifetimes a majority has, the shortest
// counts. The lock stands no longer than that.
func TestWhatAMajorityGrants(t *testing.T) {
	for want, lefts := range map[time.Duration][]time.Duration{
		3: {5, 1, 4, 2, 3}, 1: {2, 3, 1}, 2: {2, 3, 9, 1},
	} {
		if got := agreed(lefts, 3); got != want {
			t.Errorf("three of %v grant %v, not %v", lefts, got, want)
		}
	}
}

// TestMastersThatForgetCountWithThoseThatDoNotHaveIt is how much an overlap takes: a
// majority of masters that do not know of the hold, whether they forgot it or never
// had it. In the last three cases that is reached, which the package says.
func TestMastersThatForgetCountWithThoseThatDoNotHaveIt(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	url := urlOf(easy, addrs(all)...)
	a, b := open(t, url), open(t, url)
	for i, c := range []struct {
		without, forget int
		twice           bool
	}{{0, 2, false}, {1, 1, false}, {2, 0, false}, {0, 3, true}, {1, 2, true}, {2, 1, true}} {
		name := fmt.Sprint("name", i)
		for _, r := range all[:c.without] {
			do(t, r, "SET", name, "another try's") // which gives it up at once
		}
		first := join(t, a, long(name))
		if first.State != engine.Held {
			t.Fatalf("%+v: the first: %+v", c, first)
		}
		for _, r := range all[c.without:] { // a majority has answered, and soon all
			until(t, "a master does not take it", func() bool { return valueOf(t, r, name) == first.ID.Secret() })
		}
		settled(t, a) // and will not be asked again
		for _, r := range all[:c.without] {
			do(t, r, "DEL", name)
		}
		for _, r := range all[c.without : c.without+c.forget] {
			do(t, r, "FLUSHALL")
		}
		if second := join(t, b, long(name)); (second.State == engine.Held) != c.twice {
			t.Errorf("%+v: the second: %+v", c, second)
		}
	}
}

// TestUnlockTellsTheTruthWhereNobodyCanBeTold: the notification of who waits is of no use,
// and the lock was held and is free nevertheless.
func TestUnlockTellsTheTruthWhereNobodyCanBeTold(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	c := join(t, e, long("a"))
	if c.State != engine.Held {
		t.Fatalf("Join: %+v", c)
	}
	for _, r := range all {
		do(t, r, "SET", e.keys("a")[2], "somebody's")
	}
	if got := leave(t, e, c); got != engine.Held {
		t.Errorf("Leave of a claim that held: %+v", got)
	}
	for _, r := range all {
		until(t, "it stands", func() bool { return valueOf(t, r, "a") == nil })
	}
}

// TestOneServerHasOneVote: two addresses of it are not two masters. The third is nobody's,
// or it and one of the two would be a majority.
func TestOneServerHasOneVote(t *testing.T) {
	t.Parallel()
	r := masters(t, 1, nil)[0]
	p := servers.ProxyTo(t, r.Addr)
	e, err := Open(within(t), urlOf("", r.Addr, p.Addr, servers.Nobody))
	if err == nil {
		e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "same server") {
		t.Errorf("Open: %v", err)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://h":                            "not a URL of masters",
		"redlock://user:hunter2@h1,h2":         "outside 3 to 15",
		"redlock://user:hunter2@h1,h2,h1":      "named twice",
		"redlock://user:hunter2@h1,h2,h3:port": "host:port",
		"redlock://h1,h2,h3?timeout=1h":        "time-out",
		"redlock://h1,h2,h3?timeout=x":         "no time",
		"redlock://h1,h2,h3?max-ttl=10ms":      "longest TTL",
		"redlock://h1,h2,h3?restart-delay=1s":  "neither on nor off",
		"redlock://h1,h2,h3?replicas=1":        "unknown parameter",
		"redlock://h1,h2,h3?prefix={x}":        "brace",
		"redlock://h1,h2,h3?layout=foo":        "is unknown",
		"redlock://h1,h2,h3?failover":          "no other may replace",
		"redlocks://h1,h2,h3?ca=/absent":       "certificate authority",
	} {
		_, opened := Open(within(t), url)
		examined := Examine(within(t), url, engine.ExamineOptions{}, func(engine.Finding) {})
		for by, err := range map[string]error{"Open": opened, "Examine": examined} {
			if !errors.Is(err, engine.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s of %q: %v, want an engine.ErrURL that says %q", by, url, err, want)
			}
		}
	}
}
