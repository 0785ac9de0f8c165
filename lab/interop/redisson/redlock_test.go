package redisson

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
	"leasehold/lab/servers/fleet"
)

// redRig is five masters, and two Redisson clients with a RedissonRedLock on them.
type redRig struct {
	site
	masters []*servers.RedisServer
	numbers *servers.RedisServer // for what the lock protects: it is never away
	program *Program
	java    *Process // with Redisson's default watchdog of 30 s
	brief   *Process
}

// Every test runs with both releases, beside each other. The last ones end masters.
func TestRedLock(t *testing.T) {
	t.Parallel()
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			r := newRedRig(t, release)
			for _, c := range []struct {
				name string
				test func(*testing.T, *redRig)
			}{
				{"both hold", redExcludes},
				{"Java is not told", javaIsNotified},
				{"we are not told", weAreNotified},
				{"a busy program of ours starves Java", redBusy},
				{"an increment is lost", func(t *testing.T, r *redRig) { redCounter(t, r, it.Rounds(100, 20)) }},
				{"who has the multiple lock of all masters is overlooked", multiLock},
				{"a lease in seconds is another than documented", leaseInSeconds},
				{"a dead program of ours holds for ever", ourDead},
				{"a hold ends with a master", masterDiesInAHold},
				{"one is away and an increment is lost", func(t *testing.T, r *redRig) { redCounter(t, r, 20) }},
				{"two are away and an increment is lost", func(t *testing.T, r *redRig) {
					r.masters[3].Kill()
					redCounter(t, r, 20)
				}},
				{"a dead program with Redisson holds for ever", javaDead},
				{"three are away and somebody holds", nobodyHolds},
			} {
				if !t.Run(c.name, func(t *testing.T) { c.test(t, r) }) {
					return // the next would be about other masters
				}
			}
		})
	}
}

func newRedRig(t *testing.T, release string) *redRig {
	t.Helper()
	r, o := newRedRigOfOne(t, release)
	o.Watchdog = briefWatchdog
	r.brief = started(t, r.program, o)
	return r
}

// newRedRigOfOne has one program with Redisson, started with these options.
func newRedRigOfOne(t *testing.T, release string) (*redRig, Options) {
	t.Helper()
	r := &redRig{program: built(t, release), numbers: servers.Redis(t, nil)}
	var addrs []string
	for range 5 {
		m := servers.Redis(t, nil)
		r.masters, addrs = append(r.masters, m), append(addrs, m.Addr)
	}
	r.site = site{nodes: r.masters, at: "redlock://" + strings.Join(addrs, ",") + "?layout=redisson&restart-delay=off&timeout=2s"}
	o := Options{Addrs: []string{r.numbers.Addr}, Masters: addrs}
	r.java = started(t, r.program, o)
	return r, o
}

func (r *redRig) client(t *testing.T, ttl time.Duration) *leasehold.Client {
	t.Helper()
	return client(t, r.at, &leasehold.Options{TTL: ttl})
}

// entered is how many masters say that somebody has the lock.
func (r *redRig) entered(t *testing.T, name string) (n int) {
	t.Helper()
	for _, m := range r.masters {
		if v, err := m.Do("HLEN", name); err == nil && v == int64(1) {
			n++
		}
	}
	return n
}

func redExcludes(t *testing.T, r *redRig) {
	c := r.client(t, longTTL)
	a, b := r.java.Thread(1), r.brief.Thread(1)
	for _, command := range [][]string{{"lock"}, {"lock", "20000"}, {"tryLock", "20000"}, {"tryLock", "20000", "20000"}} {
		name := it.NameOf(t) + strings.Join(command, "-")
		if got := it.Does(t, a, command[0], append([]string{Red, name}, command[1:]...)...); command[0] == "tryLock" && got != "true" {
			t.Fatalf("%s: Java got %s of what is free", name, got)
		}
		it.Refused(t, c, name, 0)
		if got := it.Does(t, b, "tryLock", Red, name, "0"); got != "false" {
			t.Errorf("%s: another program with Redisson got %s", name, got)
		}
		it.Does(t, a, "lock", Red, name) // it enters again
		it.Does(t, a, "unlock", Red, name)
		it.Refused(t, c, name, 0)
		it.Does(t, a, "unlock", Red, name)
		l := locked(t, c, name)
		for _, ask := range [][]string{{"0"}, {"100"}, {"100", "20000"}} {
			if got := it.Does(t, a, "tryLock", append([]string{Red, name}, ask...)...); got != "false" {
				t.Errorf("%s: Java got %s of what we hold", name, got)
			}
		}
		it.Does(t, a, "unlock", Red, name) // of what it has nowhere: it ends nothing
		if n := r.entered(t, name); n < 3 {
			t.Errorf("%s: after a stranger's unlock we have %d masters", name, n)
		}
		it.Unlocked(t, l)
		it.Until(t, "it is left everywhere", func() bool { return r.entered(t, name) == 0 })
	}
}

// javaIsNotified: a thread that waits for so long sleeps on each master for a fifth of it,
// or until what it found there expires, unless it is told.
func javaIsNotified(t *testing.T, r *redRig) {
	e := opened(t, r.at)
	for range 5 {
		h := &hearing{Engine: e}
		name := it.NameOf(t)
		holds := h.join(t, name)
		if holds.State != engine.Held {
			t.Fatalf("ours is %v", holds.State)
		}
		waits := r.java.Thread(1).Go("tryLock", Red, name, "200000")
		r.listening(t, channelOf(name), 1)
		began := time.Now()
		h.leave(t, holds)
		if got := it.Answered(t, waits); got.Err != nil || got.Value != "true" {
			t.Fatalf("Java: %+v", got)
		}
		if took := time.Since(began); took > longTTL/2 {
			t.Errorf("Java was told after %v: it looked when our lifetime was over", took)
		}
		it.Does(t, r.java.Thread(1), "unlock", Red, name)
	}
}

// weAreNotified uses an engine, which does nothing by itself.
func weAreNotified(t *testing.T, r *redRig) {
	h := receives(t, opened(t, r.at))
	a := r.java.Thread(1)
	for i := range 3 {
		name := it.NameOf(t) + strconv.Itoa(i)
		it.Does(t, a, "lock", Red, name)
		waits := h.join(t, name)
		if waits.State != engine.Waiting || waits.PollAfter < 500*time.Millisecond {
			t.Fatalf("ours is %v, and looks after %v", waits.State, waits.PollAfter)
		}
		r.listening(t, channelOf(name), int64(len(r.masters)))
		h.quiet(t)
		it.Does(t, a, "unlock", Red, name)
		h.receive(t, waits.ID)
		it.Until(t, "it can be had", func() bool {
			c, err := h.again(t, waits)
			return err == nil && c.State == engine.Held
		})
		h.leave(t, waits)
	}
}

func redBusy(t *testing.T, r *redRig) {
	takesTurns(t, r.client(t, longTTL), r.java.Thread(1), Red, 5)
}

// redCounter: two processes of ours and two of Java, each of which must get the lock
// as often as the others. Nothing but the lock protects the number.
func redCounter(t *testing.T, r *redRig, times int) {
	name, key := it.NameOf(t), it.NameOf(t)+":number"
	var java []<-chan Answer
	for _, p := range []*Process{r.java, r.brief} {
		java = append(java, p.Thread(1).Go("add", Red, name, key, strconv.Itoa(times)))
	}
	args := []string{"add", r.at, name, r.numbers.Addr, key, strconv.Itoa(times)}
	if err := fleet.Run(it.Within(t), 2, t.TempDir(), args, func(int, string) {}); err != nil {
		t.Errorf("ours: %v", err)
	}
	for _, c := range java {
		if got := it.Answered(t, c); got.Err != nil {
			t.Errorf("Java: %v", got.Err)
		}
	}
	if n, err := number(r.numbers.Do("GET", key)); err != nil || n != 4*times {
		t.Errorf("%d increments were made and %d are there: %v", 4*times, n, err)
	}
}

func multiLock(t *testing.T, r *redRig) {
	c, a, name := r.client(t, longTTL), r.java.Thread(1), it.NameOf(t)
	it.Does(t, a, "lock", Multi, name)
	it.Refused(t, c, name, 0)
	it.Does(t, a, "unlock", Multi, name)
	l := locked(t, c, name)
	if got := it.Does(t, a, "tryLock", Multi, name, "0"); got != "false" {
		t.Errorf("the multiple lock got %s of what we hold", got)
	}
	it.Unlocked(t, l)
	it.Does(t, a, "lock", Multi, name)
	it.Does(t, a, "unlock", Multi, name)
}

// leaseInSeconds is a defect of the current release that docs/redlock.md warns of: who waits
// in vain for a round, of two seconds at most here, then asks for a thousand times more.
func leaseInSeconds(t *testing.T, r *redRig) {
	c, a, name := r.client(t, longTTL), r.java.Thread(1), it.NameOf(t)
	l := locked(t, c, name)
	waits := a.Go("lockSeconds", Red, name, "2")
	r.listening(t, channelOf(name), 1)
	time.Sleep(8 * time.Second) // several rounds, also on a busy machine
	it.Unlocked(t, l)
	it.Done(t, waits)
	v, err := r.masters[2].Do("PTTL", name)
	if ms, ok := v.(int64); err != nil || !ok || (ms > 100_000) != (r.program.Release == Current) {
		t.Errorf("the lease is %v ms now: docs/redlock.md says otherwise (%v)", v, err)
	}
	it.Does(t, a, "unlock", Red, name)
}

func ourDead(t *testing.T, r *redRig) {
	name, a := it.NameOf(t), r.java.Thread(1)
	ctx, kill := context.WithCancel(it.Within(t))
	defer kill()
	held, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- fleet.Run(ctx, 1, t.TempDir(), []string{"hold", r.at, name, "5s"}, func(int, string) { close(held) })
	}()
	select {
	case <-held:
	case err := <-ended:
		t.Fatalf("the holder has ended: %v", err)
	}
	waits := a.Go("lock", Red, name)
	r.listening(t, channelOf(name), 1)
	kill()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := r.entered(t, name); n < 3 {
		t.Error("the dead holder's lock was gone at once: it has unlocked")
	}
	it.Done(t, waits)
	it.Does(t, a, "unlock", Red, name)
}

func javaDead(t *testing.T, r *redRig) {
	name := it.NameOf(t)
	c := r.client(t, longTTL)
	it.Does(t, r.brief.Thread(1), "lock", Red, name)
	waits := it.Lock(t, c, name)
	r.listening(t, channelOf(name), 1)
	r.brief.Kill()
	if n := r.entered(t, name); n < 3 {
		t.Error("the dead holder's lock was gone at once: it has unlocked")
	}
	it.Unlocked(t, it.Got(t, waits))
}

// masterDiesInAHold: what both sides hold lasts over the end of one master, for longer
// than what was granted before it.
func masterDiesInAHold(t *testing.T, r *redRig) {
	ours, theirs := it.NameOf(t)+":ours", it.NameOf(t)+":theirs"
	c := r.client(t, briefWatchdog)
	l := locked(t, c, ours)
	it.Does(t, r.brief.Thread(1), "lock", Red, theirs)
	r.masters[4].Kill()
	for end := time.Now().Add(briefWatchdog * 3 / 2); time.Now().Before(end); {
		if got := it.Does(t, r.java.Thread(1), "tryLock", Red, ours, "0"); got != "false" {
			t.Fatalf("Java got %s of what we hold", got)
		}
		it.Refused(t, c, theirs, 0)
	}
	if !l.Valid() {
		t.Error("our lease ended with one master of five")
	}
	it.Unlocked(t, l)
	it.Does(t, r.brief.Thread(1), "unlock", Red, theirs)
	it.Unlocked(t, locked(t, c, theirs))
	it.Does(t, r.java.Thread(1), "lock", Red, ours)
	it.Does(t, r.java.Thread(1), "unlock", Red, ours)
}

func nobodyHolds(t *testing.T, r *redRig) {
	name := it.NameOf(t)
	eng := opened(t, r.at)
	c, err := leasehold.New(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // what it asked for it cannot leave
	r.masters[0].Kill()
	if got := it.Does(t, r.java.Thread(1), "tryLock", Red, name, "0"); got != "false" {
		t.Errorf("Java got %s", got)
	}
	if l, err := c.TryLock(it.Within(t), name); !errors.Is(err, leasehold.ErrUnavailable) {
		t.Errorf("ours: %v %v", l, err)
	}
}
