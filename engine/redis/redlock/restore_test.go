package redlock

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// TestALeaseComesBackOnMastersThatForgotIt: one after the other all five forget it,
// and at the end two others are down.
func TestALeaseComesBackOnMastersThatForgotIt(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	e, other := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
	c := join(t, e, long("a"))
	everywhere := func() {
		t.Helper()
		for _, r := range all {
			until(t, "it is not on all masters", func() bool { return valueOf(t, r, "a") == c.ID.Secret() })
		}
	}
	everywhere()
	for _, r := range all {
		do(t, r, "FLUSHALL")
		until(t, "it does not come back", func() bool {
			if got := renew(t, e, c, time.Minute); got.State != engine.Held || got.Ticket != c.Ticket {
				t.Fatalf("renewed as %+v", got)
			}
			return valueOf(t, r, "a") == c.ID.Secret()
		})
		everywhere()
		if n := counterOf(t, r, "a"); n != c.Ticket {
			t.Errorf("the counter is %d and not the ticket %d", n, c.Ticket)
		}
		if ttl := time.Duration(do(t, r, "PTTL", "a").(int64)) * time.Millisecond; ttl <= 30*time.Second || ttl > time.Minute {
			t.Errorf("it stands for %v", ttl)
		}
	}
	for _, r := range all[:2] {
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if got := renew(t, e, c, time.Minute); got.State != engine.Held || got.Ticket != c.Ticket {
		t.Errorf("with two down, renewed as %+v", got)
	}
	if got := join(t, other, long("a")); got.State != engine.Waiting {
		t.Errorf("beside it: %+v", got)
	}
	if s := leave(t, e, c); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	if got := join(t, other, long("a")); got.State != engine.Held || got.Ticket <= c.Ticket {
		t.Errorf("the next is %+v after %d", got, c.Ticket)
	}
}

// TestWhatIsNotProvenIsNotTakenAgain: a restoration that comes late, or after its
// claim was left, or where another program holds. The control is one that takes.
func TestWhatIsNotProvenIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	const ttl = time.Hour
	earlier := e.tries.Add(1)
	for name, c := range map[string]struct {
		began   time.Duration // before now
		revoked int64
		before  func(c engine.Claim, r *restoration)
		takes   bool
		stamped bool
	}{
		"in time":              {takes: true, stamped: true},
		"late":                 {began: ttl},
		"late by a fast clock": {began: ttl - drift(ttl)/2}, // of the master that granted
		"evicted":              {revoked: 1},
		"left":                 {before: func(c engine.Claim, _ *restoration) { e.restores.leave([]engine.Claim{c}) }},
		"another holds":        {before: func(c engine.Claim, _ *restoration) { do(t, all[0], "SET", c.Name, "theirs") }},
		"not a string":         {before: func(c engine.Claim, _ *restoration) { do(t, all[0], "HSET", c.Name, "f", "v") }},
		"somebody's beside it": {before: func(c engine.Claim, _ *restoration) { do(t, all[0], "SET", e.keys(c.Name)[1], "theirs") }},
		"a higher was stamped": {takes: true, before: func(c engine.Claim, _ *restoration) {
			others := []byte(record(ahead))
			copy(others[10:], others[2:10]) // stamped for another
			do(t, all[0], "SET", e.keys(c.Name)[1], string(others))
		}},
		"the same was stamped for another": {takes: true, before: func(c engine.Claim, _ *restoration) {
			do(t, all[0], "SET", e.keys(c.Name)[1], record(c.Ticket))
		}},
		"revoked since": {before: func(c engine.Claim, _ *restoration) {
			revoked := []byte(record(5))
			copy(revoked[66:], c.ID.Secret())
			do(t, all[0], "SET", e.keys(c.Name)[1], string(revoked))
		}},
		"a lower one was given": {takes: true, stamped: true, before: func(c engine.Claim, _ *restoration) { do(t, all[0], "SET", e.keys(c.Name)[1], record(5)) }},
	} {
		claim := engine.Claim{Name: name, ID: engine.NewID(), State: engine.Held, Ticket: uint64(time.Now().UnixMicro()), TTL: ttl}
		x := extended{known: []bool{true}, values: []int64{int64(engine.Gone), 0, c.revoked}}
		x.clock = time.Duration(time.Now().UnixMicro())*time.Microsecond - boottime.Now()
		r := e.restores.begin(boottime.Now() - c.began)
		r.held = []engine.Claim{claim}
		if c.before != nil {
			c.before(claim, r)
		}
		e.retake(r, &x)
		e.restores.end(r)
		id := claim.ID.Secret()
		took := do(t, all[0], "TYPE", name) == "string" && valueOf(t, all[0], name) == id
		if took != c.takes {
			t.Errorf("%s: taken: %v", name, took)
		}
		if !took {
			continue
		}
		line := do(t, all[0], "GET", e.keys(name)[1]).(string)
		stamp := binary.BigEndian.Uint64([]byte(line[10:18]))
		if want := map[bool]uint64{true: claim.Ticket}[c.stamped]; stamp != want {
			t.Errorf("%s: stamped %d, not %d", name, stamp, want)
		}
		if counter := counterOf(t, all[0], name); counter < claim.Ticket {
			t.Errorf("%s: the counter is %d", name, counter)
		}
		// What an earlier try of it gives up late is not this.
		(&try{e: e, r: &request{Request: engine.Request{ID: claim.ID}}, number: earlier, keys: e.keys(name)}).leave(&ballot{sent: true, state: engine.Held})
		if valueOf(t, all[0], name) != id {
			t.Errorf("%s: an earlier try has given it up", name)
		}
	}
}

// TestOfSeveralLeasesEachIsTakenAgainByItsOwnAnswer: which is gone is read at its place
// of a renewal, and one whose proof is over is not in the way of the next.
func TestOfSeveralLeasesEachIsTakenAgainByItsOwnAnswer(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	x := extended{known: make([]bool, 6), values: make([]int64, 3*6)}
	x.clock = time.Duration(time.Now().UnixMicro())*time.Microsecond - boottime.Now()
	r := e.restores.begin(boottime.Now() - time.Minute)
	defer e.restores.end(r)
	var want, got []string
	for i, c := range []struct {
		name  string
		known bool
		state engine.State
		ttl   time.Duration
		takes bool
	}{
		{"it has", true, engine.Held, time.Hour, false},
		{"it lost, and the proof is over", true, engine.Gone, time.Second, false},
		{"it lost", true, engine.Gone, time.Hour, true},
		{"it has too", true, engine.Held, time.Hour, false},
		{"it did not say", false, engine.Gone, time.Hour, false},
		{"it lost as well", true, engine.Gone, time.Hour, true},
	} {
		r.held = append(r.held, engine.Claim{Name: c.name, ID: engine.NewID(), State: engine.Held, Ticket: uint64(i + 1), TTL: c.ttl})
		x.known[i], x.values[3*i] = c.known, int64(c.state)
		if c.takes {
			want = append(want, c.name)
		}
	}
	e.retake(r, &x)
	for _, c := range r.held {
		if valueOf(t, all[0], c.Name) == c.ID.Secret() && counterOf(t, all[0], c.Name) == c.Ticket {
			got = append(got, c.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("taken again: %q, not %q", got, want)
	}
}

// TestALeaseComesBackOnAMasterThatAnswersLate: after a majority has decided.
func TestALeaseComesBackOnAMasterThatAnswersLate(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	p := servers.ProxyTo(t, all[2].Addr)
	e := open(t, urlOf(easy, all[0].Addr, all[1].Addr, p.Addr))
	c := join(t, e, long("a"))
	until(t, "it is not on the third", func() bool { return valueOf(t, all[2], "a") == c.ID.Secret() })
	do(t, all[2], "DEL", "a")
	until(t, "it does not come back", func() bool {
		p.HoldReply("EVALSHA")
		renew(t, e, c, time.Minute)
		p.ReleaseReply()
		return valueOf(t, all[2], "a") == c.ID.Secret()
	})
}

// TestWhatIsLeftBeforeItsTurnIsNotTakenAgain: it is noted until the last master was asked.
func TestWhatIsLeftBeforeItsTurnIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	c := engine.Claim{Name: "a", ID: engine.NewID(), State: engine.Held, Ticket: 7, TTL: time.Hour}
	for _, left := range []bool{true, false} {
		var said []extended
		for i := range all {
			x := extended{known: []bool{true}, values: []int64{int64(engine.Gone), 0, 0}}
			x.master, x.clock = i, time.Duration(time.Now().UnixMicro())*time.Microsecond-boottime.Now()
			said = append(said, x)
		}
		m := e.masters[0]
		m.again.Lock() // as one more that is under way
		r := e.restores.begin(boottime.Now())
		r.held = []engine.Claim{c}
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.restore(r, said, nil)
		}()
		until(t, "the others do not take it", func() bool { return valueOf(t, all[1], "a") != nil && valueOf(t, all[2], "a") != nil })
		time.Sleep(10 * time.Millisecond) // for who would not wait for the first
		e.restores.mu.Lock()
		if !e.restores.m[r] {
			t.Error("who leaves now is not heeded")
		}
		e.restores.mu.Unlock()
		notified := func() {}
		if left {
			notified = e.restores.leave([]engine.Claim{c})
		}
		m.again.Unlock()
		<-done
		notified()
		m.restored()
		if took := valueOf(t, all[0], "a") != nil; took == left {
			t.Errorf("left %v: taken %v", left, took)
		}
		for _, r := range all[1:] {
			do(t, r, "DEL", "a")
		}
	}
}

// TestWhatIsBeingTakenAgainIsLeftAfterThat: before, it might be taken after it was left.
func TestWhatIsBeingTakenAgainIsLeftAfterThat(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	p := servers.ProxyTo(t, all[0].Addr)
	e := open(t, urlOf(easy, p.Addr, all[1].Addr, all[2].Addr))
	c := join(t, e, long("a")) // it must not be over before the test is
	for _, r := range all {
		until(t, "it is not on all", func() bool { return valueOf(t, r, "a") == c.ID.Secret() })
	}
	do(t, all[0], "DEL", "a")
	x := extended{known: []bool{true}, values: []int64{int64(engine.Gone), 0, 0}}
	x.clock = time.Duration(time.Now().UnixMicro())*time.Microsecond - boottime.Now()
	r := e.restores.begin(boottime.Now())
	r.held = []engine.Claim{c}
	do(t, all[0], "SCRIPT", "LOAD", e.scripts.retake.Text())
	p.HoldReply("EVALSHA")
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.retake(r, &x)
	}()
	until(t, "it is not taken again", func() bool { return valueOf(t, all[0], "a") == c.ID.Secret() })
	m := e.masters[0]
	if m.again.TryLock() {
		m.again.Unlock()
		t.Error("nobody would wait until that is answered")
	}
	p.ReleaseReply()
	<-done
	e.restores.end(r)

	m.again.Lock() // as one more that is under way
	if s := leave(t, e, c); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	leave(t, e, join(t, e, exclusive("b")))
	if valueOf(t, all[0], "a") == nil {
		t.Error("it was left before that was answered")
	}
	m.again.Unlock()
	until(t, "it stands", func() bool { return valueOf(t, all[0], "a") == nil })
}

// TestALeaseThatIsLeftWhileItIsRenewedIsNotTakenAgain: one master forgot it, and the
// others' answers to the renewal come after that was told that it is left.
func TestALeaseThatIsLeftWhileItIsRenewedIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	p, q := servers.ProxyTo(t, all[0].Addr), servers.ProxyTo(t, all[1].Addr)
	e := open(t, urlOf(easy, p.Addr, q.Addr, all[2].Addr))
	other := join(t, e, long("b")) // so that the masters know the scripts
	for _, r := range all {
		until(t, "it is not on all", func() bool { return valueOf(t, r, "b") == other.ID.Secret() })
	}
	leave(t, e, other)
	for _, r := range all {
		until(t, "it is not left on all", func() bool { return valueOf(t, r, "b") == nil })
	}
	// The control: what is renewed and not left comes back.
	c := join(t, e, long("a"))
	until(t, "it is not on the third", func() bool { return valueOf(t, all[2], "a") == c.ID.Secret() })
	do(t, all[2], "DEL", "a")
	until(t, "it does not come back", func() bool {
		renew(t, e, c, time.Minute) // a master that answers too late is only asked by the next one
		return valueOf(t, all[2], "a") == c.ID.Secret()
	})
	over := func() bool {
		e.restores.mu.Lock()
		defer e.restores.mu.Unlock()
		return len(e.restores.m) == 0
	}
	until(t, "it is still being taken again", over)

	do(t, all[2], "DEL", "a")
	p.HoldReply("EVALSHA")
	q.HoldReply("EVALSHA")
	before, then := asked(t, all[2]), p.Commands()["EVALSHA"]+q.Commands()["EVALSHA"]
	renewed := make(chan error, 1)
	go func() {
		_, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: c.ID, Want: time.Minute}})
		renewed <- err
	}()
	until(t, "it is not renewed", func() bool {
		return asked(t, all[2]) == before+1 && p.Commands()["EVALSHA"]+q.Commands()["EVALSHA"] == then+2
	})
	left := make(chan error, 1)
	go func() {
		_, err := e.Leave(within(t), []engine.Claim{c})
		left <- err
	}()
	until(t, "it is not left", func() bool { return asked(t, all[2]) == before+2 })
	p.ReleaseReply()
	q.ReleaseReply()
	if err := <-renewed; err != nil {
		t.Errorf("renewed: %v", err)
	}
	if err := <-left; err != nil {
		t.Errorf("left: %v", err)
	}
	until(t, "it is still being taken again", over)
	if v := valueOf(t, all[2], "a"); v != nil {
		t.Errorf("left, it stands as %v", v)
	}
}

// asked is how many scripts a server was asked to run by their digests.
func asked(t *testing.T, r *servers.RedisServer) (n int) {
	t.Helper()
	calls, err := r.Info("cmdstat_evalsha")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(calls, "calls=%d,", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
