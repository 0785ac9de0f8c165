package redlock

import (
	"strconv"
	"testing"
	"time"

	"leasehold/engine"
)

// waited is a claim that waited and holds now.
func waited(t *testing.T, e, other *Engine, name string) engine.Claim {
	t.Helper()
	held := join(t, other, long(name))
	c := join(t, e, long(name))
	if held.State != engine.Held || c.State != engine.Waiting {
		t.Fatalf("%+v beside %+v", c, held)
	}
	leave(t, other, held)
	settled(t, other)
	if c = renew(t, e, c, time.Minute); c.State != engine.Held {
		t.Fatalf("free, and renewed as %+v", c)
	}
	settled(t, e)
	return c
}

// TestWhatWaitedAndHoldsIsNotTakenAnew: once it is lost it is gone, as any other.
func TestWhatWaitedAndHoldsIsNotTakenAnew(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e, other := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
	c := waited(t, e, other, "a")
	for _, r := range all {
		do(t, r, "FLUSHALL")
	}
	if got := renew(t, e, c, time.Minute); got.State != engine.Gone {
		t.Errorf("lost, and renewed as %+v", got)
	}
	settled(t, e)
	if n := standsOn(t, all, c); n > 0 {
		t.Errorf("it stands on %d masters", n)
	}
}

// TestAJoinAskedAgainKeepsItsTime: who waits is told in the order in which they began,
// also if they were told before, and somebody else was faster.
func TestAJoinAskedAgainKeepsItsTime(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e, other := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
	leave(t, e, join(t, e, long("warm"))) // it knows the masters' clocks
	settled(t, e)
	ahead := e.clock.ahead.Load()
	join(t, other, long("a"))
	settled(t, other)
	r := long("a")
	var began [2]uint64
	for i := range began {
		e.clock.ahead.Store(ahead) // what is known of a clock differs from answer to answer
		join(t, e, r)
		settled(t, e)
		score, err := strconv.ParseUint(do(t, all[0], "ZSCORE", e.keys("a")[2], r.ID.Secret()+e.channel).(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		began[i] = score
		do(t, all[0], "DEL", e.keys("a")[2])
		time.Sleep(50 * time.Millisecond)
	}
	if began[1] != began[0] {
		t.Errorf("it began at %d, and asked again at %d", began[0], began[1])
	}
}

// TestARevokedClaimThatIsAskedForAgainIsGone: the answer to its Join was lost, so to speak.
func TestARevokedClaimThatIsAskedForAgainIsGone(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	for name, now := range map[string]bool{"marked": false, "ended": true} {
		r := long(name)
		c := join(t, e, r)
		settled(t, e)
		if err := e.Revoke(within(t), name, c.Ticket, now); err != nil {
			t.Fatal(err)
		}
		if got := join(t, e, r); got.State != engine.Gone || !got.Revoked {
			t.Errorf("%s, and asked for again: %+v", name, got)
		}
	}
	other := long("ended") // which nobody has
	if got := join(t, e, other); got.State != engine.Held {
		t.Errorf("another claim: %+v", got)
	}
}

// TestWhatReplacedAClaimKeepsItsPlace: where two of three do not answer, the third may
// have given the place of the old claim to the new one, which is all that is left.
func TestWhatReplacedAClaimKeepsItsPlace(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf("timeout=300ms&restart-delay=off", addrs(all)...))
	first := long("a")
	until(t, "it is not granted", func() bool { // a busy machine may take longer than the short time, which is for the stopped ones
		c, err := e.Join(within(t), first)
		return err == nil && c.State == engine.Held
	})
	settled(t, e)
	for _, r := range all[1:] {
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		defer r.Cont()
	}
	r := long("a")
	r.Replaces = first.ID
	if c, err := e.Join(within(t), r); err == nil {
		t.Fatalf("void: a minority answers: %+v", c)
	}
	until(t, "the place is given up", func() bool { return valueOf(t, all[0], "a") == r.ID.Secret() })
}

// TestAMajorityThatMayStillSayMineIsWaitedFor: of five, two are taken and one is free, and
// two have not answered. These decide.
func TestAMajorityThatMayStillSayMineIsWaitedFor(t *testing.T) {
	e := &Engine{majority: 3, masters: make([]*master, 5)}
	e.life, e.end = t.Context(), func() {}
	x := &try{e: e, received: make(chan *ballot, 5)}
	says := func(i int, s engine.State) *ballot { return &ballot{master: i, sent: true, state: s} }
	for i, s := range []engine.State{engine.Waiting, engine.Waiting, engine.Held, engine.Held, engine.Held} {
		x.received <- says(i, s)
	}
	all, err := x.collect(t.Context(), nil)
	if err != nil || all.mine != 3 {
		t.Errorf("decided with %d of ours: %v", all.mine, err)
	}
}

// TestWhoIsOverWaitsForNoRelease: neither a try that has failed nor one whose time is up
// takes the lock later.
func TestWhoIsOverWaitsForNoRelease(t *testing.T) {
	e := &Engine{life: t.Context()}
	var r releases
	answered := r.add("a")
	x := &try{e: e, over: make(chan struct{})}
	if x.await(r.before("a"), time.Millisecond) {
		t.Error("its time is up, and it asks")
	}
	close(x.over)
	if x.await(r.before("a"), time.Hour) {
		t.Error("it has failed, and asks")
	}
	if !x.await(r.before("b"), 0) {
		t.Error("another name waits for it")
	}
	again := r.add("a")
	answered()
	if n := len(r.before("a")); n != 1 {
		t.Errorf("%d releases are under way, not 1", n)
	}
	again()
	if len(r.m) > 0 {
		t.Errorf("what was answered is remembered: %v", r.m)
	}
}
