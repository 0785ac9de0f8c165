package redisson

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/redis/redissonlock"
	it "leasehold/lab/interop/internal/interoptest"
)

// Every test runs with the current release and with an old one, beside each other.
func TestShared(t *testing.T) {
	t.Parallel()
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, release)
			for _, c := range []struct {
				name string
				test func(*testing.T, *rig)
			}{
				{"a release is told to nobody", func(t *testing.T, r *rig) { releasesAreNotified(t, &r.site, r.java.Thread(1), r.program.Release) }},
				{"hand-over takes a poll", handOverIsPrompt},
				{"one unlock ends a re-entered hold", reentryCounts},
				{"a lease that ended still excludes", leaseEnds},
				{"who gave up waiting still waits", givingUp},
				{"a stranger unlocks", strangersCannotUnlock},
				{"an interrupted waiter gets the lock", interrupted},
				{"a lock without expiry is stolen", noExpiry},
				{"a hold ends before its holder does", watchdogs},
				{"an increment is lost", counter},
				{"a busy program of ours starves Java", busy},
				{"somebody of a crowd is never served", crowded},
				{"readers and writers meet", readersAndWriters},
				{"a writer's leaving is forgotten by who is about to sleep", aWakeIsLost},
				{"a reader's leaving ends the hold of another", readersStay},
				{"an increment is lost among readers", mixedCounter},
				{"tokens fall", tokensRise},
				{"the dead hold for ever", killed}, // last: it kills a process of the rig
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, r) })
			}
		})
	}
}

// The figures are for orientation: on a busy machine they say little. A poll would
// be a second away, and the end of the holder's TTL thirty.
func handOverIsPrompt(t *testing.T, r *rig) {
	const turns = 15
	c := r.client(t, nil)
	a, b := r.java.Thread(1), r.brief.Thread(1)
	median := func(t *testing.T, turn func(t *testing.T, name string) time.Duration) {
		var took []time.Duration
		for i := range turns {
			took = append(took, turn(t, it.NameOf(t)+strconv.Itoa(i)))
		}
		slices.Sort(took)
		t.Logf("from the call of unlock to the return of lock: p50 %v, longest %v of %d", took[turns/2], took[turns-1], turns)
		if took[turns/2] > 500*time.Millisecond {
			t.Errorf("p50 %v: nobody was told", took[turns/2])
		}
	}
	t.Run("from Java to us", func(t *testing.T) {
		median(t, func(t *testing.T, name string) time.Duration {
			it.Does(t, a, "lock", Lock, name)
			waits := it.Lock(t, c, name)
			r.listening(t, channelOf(name), 1)
			began := time.Now()
			gone := a.Go("unlock", Lock, name)
			l := it.Got(t, waits)
			took := time.Since(began)
			it.Answered(t, gone)
			it.Unlocked(t, l)
			return took
		})
	})
	t.Run("from us to Java", func(t *testing.T) {
		median(t, func(t *testing.T, name string) time.Duration {
			l := locked(t, c, name)
			waits := a.Go("lock", Lock, name)
			r.listening(t, channelOf(name), 1)
			began := time.Now()
			it.Unlocked(t, l)
			it.Answered(t, waits)
			took := time.Since(began)
			it.Does(t, a, "unlock", Lock, name)
			return took
		})
	})
	t.Run("from Java to Java", func(t *testing.T) {
		median(t, func(t *testing.T, name string) time.Duration {
			it.Does(t, a, "lock", Lock, name)
			waits := b.Go("lock", Lock, name)
			r.listening(t, channelOf(name), 1)
			began := time.Now()
			gone := a.Go("unlock", Lock, name)
			it.Answered(t, waits)
			took := time.Since(began)
			it.Answered(t, gone)
			it.Does(t, b, "unlock", Lock, name)
			return took
		})
	})
}

func reentryCounts(t *testing.T, r *rig) {
	c := r.client(t, nil)
	a := r.java.Thread(1)
	t.Run("Java's", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Lock, name)
		it.Does(t, a, "lock", Lock, name)
		if n := it.Does(t, a, "getHoldCount", Lock, name); n != "2" {
			t.Errorf("Java counts %s", n)
		}
		it.Refused(t, c, name, 0)
		if n := it.Does(t, a, "getHoldCount", Lock, name); n != "2" {
			t.Errorf("Java counts %s after we asked", n)
		}
		it.Does(t, a, "unlock", Lock, name)
		it.Refused(t, c, name, 0)
		it.Does(t, a, "unlock", Lock, name)
		it.Unlocked(t, locked(t, c, name))
	})
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		again := c.With(leasehold.LockOptions{Reentrant: true})
		outer := locked(t, again, name)
		inner, err := again.Lock(outer.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		it.Unlocked(t, inner)
		if got := it.Does(t, a, "tryLock", Lock, name, "0"); got != "false" {
			t.Errorf("Java got %s after the inner unlock", got)
		}
		it.Unlocked(t, outer)
		if got := it.Does(t, a, "tryLock", Lock, name, "0"); got != "true" {
			t.Errorf("Java got %s after the outer unlock", got)
		}
		it.Does(t, a, "unlock", Lock, name)
	})
}

// Nobody unlocks and nobody tells: whoever waits looks when the deadline says.
func leaseEnds(t *testing.T, r *rig) {
	const lease = 3 * time.Second
	c := r.client(t, nil)
	a := r.java.Thread(1)
	t.Run("Java's", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Lock, name, millis(lease))
		it.Refused(t, c, name, 0)
		l := locked(t, c, name)
		if e := it.Throws(t, a, "unlock", Lock, name); e != "IllegalMonitorStateException" {
			t.Errorf("Java unlocks what it lost: %s", e)
		}
		if got := it.Does(t, a, "tryLock", Lock, name, "0"); got != "false" {
			t.Errorf("Java got %s while we hold", got)
		}
		it.Unlocked(t, l)
	})
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		l := locked(t, c.With(leasehold.LockOptions{TTL: lease, NoRenew: true}), name)
		it.Does(t, a, "lock", Lock, name)
		if l.Valid() {
			t.Error("Java holds, and our lease is valid")
		}
		if err := l.Unlock(); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("unlocking what was lost: %v", err)
		}
		if n := it.Does(t, a, "getHoldCount", Lock, name); n != "1" {
			t.Errorf("Java's hold was touched: it counts %s", n)
		}
		it.Does(t, a, "unlock", Lock, name)
	})
}

func givingUp(t *testing.T, r *rig) {
	c := r.client(t, nil)
	a := r.java.Thread(1)
	t.Run("Java", func(t *testing.T) {
		name := it.NameOf(t)
		l := locked(t, c, name)
		answer, err := a.Do(it.Within(t), "tryLock", Lock, name, "300", "5000")
		if err != nil || answer.Value != "false" {
			t.Fatalf("%+v %v", answer, err)
		}
		if took := time.Duration(answer.Ended - answer.Began); took < 200*time.Millisecond {
			t.Errorf("Java waited %v instead of 300 ms by its own clock", took)
		}
		if !l.Valid() {
			t.Error("our lease is gone")
		}
		it.Unlocked(t, l)
		if n := r.do(t, "EXISTS", name); n != int64(0) {
			t.Error("who gave up has it")
		}
	})
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Lock, name)
		it.Refused(t, c, name, 300*time.Millisecond)
		if n := it.Does(t, a, "getHoldCount", Lock, name); n != "1" {
			t.Errorf("Java counts %s", n)
		}
		it.Does(t, a, "unlock", Lock, name)
		if n := r.do(t, "EXISTS", name); n != int64(0) {
			t.Error("who gave up has it")
		}
	})
}

func strangersCannotUnlock(t *testing.T, r *rig) {
	c := r.client(t, nil)
	a := r.java.Thread(1)
	t.Run("Java what we hold", func(t *testing.T) {
		name := it.NameOf(t)
		l := locked(t, c, name)
		before := r.do(t, "DUMP", name)
		if e := it.Throws(t, a, "unlock", Lock, name); e != "IllegalMonitorStateException" {
			t.Errorf("Java unlocks what we hold: %s", e)
		}
		if now := r.do(t, "DUMP", name); now != before {
			t.Error("the lock was changed")
		}
		it.Unlocked(t, l)
	})
	t.Run("we what Java took by force", func(t *testing.T) {
		name := it.NameOf(t)
		l := locked(t, c, name)
		if got := it.Does(t, a, "forceUnlock", Lock, name); got != "true" {
			t.Fatalf("forceUnlock: %s", got)
		}
		it.Does(t, a, "lock", Lock, name)
		if err := l.Unlock(); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("unlocking what was taken: %v", err)
		}
		if n := it.Does(t, a, "getHoldCount", Lock, name); n != "1" {
			t.Errorf("our Unlock touched Java's hold: it counts %s", n)
		}
		it.Does(t, a, "unlock", Lock, name)
	})
	t.Run("Java what we took by force", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Lock, name)
		if err := c.RevokeNow(it.Within(t), name, 0); err != nil {
			t.Fatal(err)
		}
		l := locked(t, c, name)
		if e := it.Throws(t, a, "unlock", Lock, name); e != "IllegalMonitorStateException" {
			t.Errorf("Java unlocks what it lost: %s", e)
		}
		it.Unlocked(t, l)
	})
}

func interrupted(t *testing.T, r *rig) {
	e := receives(t, opened(t, r.url(redissonlock.Lock)))
	a := r.java.Thread(1)
	name := it.NameOf(t)
	it.Does(t, a, "lock", Lock, name)
	it.Does(t, a, "unlock", Lock, name)
	holds := e.join(t, name)
	// While it subscribes Redisson does not heed an interrupt.
	waits := r.sleeps(t, a, "lockInterruptibly", Lock, name)
	it.Does(t, a, "interrupt")
	wasInterrupted(t, it.Answered(t, waits))
	e.leave(t, holds)
	if n := r.do(t, "EXISTS", name); n != int64(0) {
		t.Error("the interrupted waiter has it")
	}
	it.Does(t, a, "lock", Lock, name)
	it.Does(t, a, "unlock", Lock, name)
}

func noExpiry(t *testing.T, r *rig) {
	c := r.client(t, nil)
	a := r.java.Thread(1)
	name := it.NameOf(t)
	it.Does(t, a, "lock", Lock, name, "60000") // with a lease of its own, nothing renews it
	r.do(t, "PERSIST", name)
	it.Refused(t, c, name, 0)
	it.Refused(t, c, name, 1500*time.Millisecond)
	if ttl := r.do(t, "PTTL", name); ttl != int64(-1) {
		t.Errorf("the lock was given an expiry: %v", ttl)
	}
	line, err := c.Queue(it.Within(t), name)
	if err != nil || len(line.Claims) != 1 || line.Claims[0].State != engine.Held || line.Claims[0].TTL != 0 {
		t.Errorf("shown as %+v: %v", line, err)
	}
	waits := it.Lock(t, c, name)
	r.listening(t, channelOf(name), 1)
	it.Does(t, a, "unlock", Lock, name)
	it.Unlocked(t, it.Got(t, waits))
}

// Twice the watchdog's period here: at Redisson's default that is a minute.
func watchdogs(t *testing.T, r *rig) {
	const span = 2 * briefWatchdog
	a, b := r.java.Thread(1), r.brief.Thread(1)
	theirs, ours := it.NameOf(t)+":theirs", it.NameOf(t)+":ours"
	c := r.client(t, &leasehold.Options{TTL: briefWatchdog})
	it.Does(t, b, "lock", Lock, theirs)
	l := locked(t, c, ours)
	java := a.Go("tryLock", Lock, ours, millis(span))
	it.Refused(t, c, theirs, span)
	if got := it.Answered(t, java); got.Err != nil || got.Value != "false" {
		t.Errorf("Java got what we hold: %+v", got)
	}
	it.Does(t, b, "unlock", Lock, theirs)
	it.Unlocked(t, l)
}

// Callers of one program pass a claim on among themselves, and Java is not in their
// queue.
func busy(t *testing.T, r *rig) { takesTurns(t, r.client(t, nil), r.java.Thread(1), Lock, 10) }

// takesTurns: Java locks and unlocks so often beside eight callers of one program.
func takesTurns(t *testing.T, c *leasehold.Client, java *Thread, kind string, times int) {
	t.Helper()
	name := it.NameOf(t)
	ctx, stop := context.WithCancel(it.Within(t))
	defer stop()
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				err = c.Do(ctx, name, func(context.Context, *leasehold.Lease) error { return nil })
			}
			ended <- err
		}()
	}
	for range times {
		it.Does(t, java, "lock", kind, name)
		it.Does(t, java, "unlock", kind, name)
	}
	stop()
	for range cap(ended) {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("ours: %v", err)
		}
	}
}

// crowded: eight clients of ours lock and unlock in a tight loop, and a Java program
// too. A hold of nobody, which a try that arrives late once made, would stop all of them
// for a minute.
func crowded(t *testing.T, r *rig) {
	const pairs = 25
	name := it.NameOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	ended := make(chan error, 8)
	for range cap(ended) {
		c := r.client(t, &leasehold.Options{TTL: time.Minute})
		go func() {
			var err error
			for n := 0; n < pairs && err == nil; n++ {
				err = c.Do(ctx, name, func(context.Context, *leasehold.Lease) error { return nil })
			}
			ended <- err
		}()
	}
	for range 5 {
		it.Does(t, r.java.Thread(1), "lock", Lock, name)
		it.Does(t, r.java.Thread(1), "unlock", Lock, name)
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Errorf("ours: %v", err)
		}
	}
}

func tokensRise(t *testing.T, r *rig) {
	name := it.NameOf(t)
	a := r.java.Thread(1)
	if r.program.Release == Old {
		if e := it.Throws(t, a, "lock", Fenced, name); e != "NoSuchMethodException" {
			t.Errorf("%s has fenced locks: %s", Old, e)
		}
		return
	}
	c := client(t, r.url(redissonlock.Fenced), nil)
	var last uint64
	rises := func(who string, token uint64) {
		t.Helper()
		if token <= last {
			t.Errorf("%s has token %d after %d", who, token, last)
		}
		last = token
	}
	for range 3 {
		it.Does(t, a, "lock", Fenced, name)
		it.Refused(t, c, name, 0)
		token, err := strconv.ParseUint(it.Does(t, a, "getToken", Fenced, name), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		rises("Java", token)
		it.Does(t, a, "unlock", Fenced, name)

		l := locked(t, c, name)
		if got := it.Does(t, a, "tryLock", Fenced, name, "0"); got != "false" {
			t.Errorf("Java got %s while we hold", got)
		}
		rises("ours", l.Token().Ticket())
		it.Unlocked(t, l)
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
