package redisson

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine/redis/redissonlock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// Redisson wakes at the message 1, which follows a writer, only threads that sleep
// (getQueueLength in its LockPubSub). One that has not yet read its answer "taken"
// would then sleep until the writer's lease were over.
func aWakeIsLost(t *testing.T, r *rig) {
	proxy := servers.ProxyTo(t, r.server.Addr)
	java := started(t, r.program, Options{Addrs: []string{proxy.Addr}})
	for _, kind := range []string{Write, Read} {
		name := it.NameOf(t) + kind
		a := java.Thread(1)
		it.Does(t, a, "lock", kind, name) // knows the server, and the server the scripts
		it.Does(t, a, "unlock", kind, name)
		e := &hearing{Engine: opened(t, r.url(redissonlock.ReadWrite)+"&watchdog=2m")}
		holds := e.joinFor(t, name, 2*it.Bound)
		// It tries, subscribes, and tries again: that answer is on its way for a while.
		proxy.OnCommand(func(command string) {
			if command == "SUBSCRIBE" {
				proxy.HoldReply("EVAL", "EVALSHA")
			}
		})
		before := r.scripts(t)
		waits := a.Go("lock", kind, name)
		it.Until(t, "Java has tried twice", func() bool { return r.scripts(t)-before >= 2 })
		proxy.OnCommand(nil)
		e.leave(t, holds)
		time.Sleep(100 * time.Millisecond) // Java has heard of it
		proxy.ReleaseReply()
		began := time.Now()
		if got := it.Answered(t, waits); got.Err != nil {
			t.Fatalf("Java: %v", got.Err)
		}
		t.Logf("%s: Java holds %v after it has its answer", kind, time.Since(began))
		it.Does(t, a, "unlock", kind, name)
	}
}

func readersAndWriters(t *testing.T, r *rig) {
	c := client(t, r.url(redissonlock.ReadWrite), nil)
	a, b := r.java.Thread(1), r.java.Thread(2)
	rlock := func(name string) <-chan it.Result {
		return it.RLock(t, c, name)
	}
	lock := func(name string) <-chan it.Result {
		return it.Lock(t, c, name)
	}
	java := func(t *testing.T, kind, name, want string) {
		t.Helper()
		if got := it.Does(t, b, "tryLock", kind, name, "0"); got != want {
			t.Errorf("another thread's %s lock: %s instead of %s", kind, got, want)
		} else if got == "true" {
			it.Does(t, b, "unlock", kind, name)
		}
	}
	channel := channelOfReadWrite

	t.Run("readers share, and a writer of ours waits for all", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Read, name)
		l := it.Got(t, rlock(name))
		java(t, Read, name, "true")
		java(t, Write, name, "false")
		writer := lock(name)
		r.listening(t, channel(name), 1)
		it.Unlocked(t, l)
		it.Refused(t, c, name, 0)
		it.Does(t, a, "unlock", Read, name)
		w := it.Got(t, writer)
		java(t, Read, name, "false")
		it.Unlocked(t, w)
		java(t, Write, name, "true")
	})
	t.Run("readers share, and a writer of Java's waits for all", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Read, name)
		l := it.Got(t, rlock(name))
		writer := b.Go("lock", Write, name)
		r.listening(t, channel(name), 1)
		it.Does(t, a, "unlock", Read, name)
		it.Unlocked(t, l) // the last reader is ours, and it tells
		if got := it.Answered(t, writer); got.Err != nil {
			t.Fatal(got.Err)
		}
		it.Refused(t, c, name, 0)
		if l, err := c.TryRLock(it.Within(t), name); err == nil {
			l.Unlock()
			t.Error("we read while Java writes")
		}
		it.Does(t, b, "unlock", Write, name)
	})
	t.Run("a writer of Java's wakes our readers", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "lock", Write, name)
		one, two := rlock(name), rlock(name)
		r.listening(t, channel(name), 1)
		it.Does(t, a, "unlock", Write, name)
		it.Unlocked(t, it.Got(t, one))
		it.Unlocked(t, it.Got(t, two))
	})
	t.Run("a writer of ours wakes Java's readers", func(t *testing.T) {
		name := it.NameOf(t)
		w := it.Got(t, lock(name))
		one, two := a.Go("lock", Read, name), b.Go("lock", Read, name)
		r.listening(t, channel(name), 1) // both threads by one subscription
		it.Unlocked(t, w)
		for _, c := range []<-chan Answer{one, two} {
			if got := it.Answered(t, c); got.Err != nil {
				t.Error(got.Err)
			}
		}
		it.Refused(t, c, name, 0)
		it.Does(t, a, "unlock", Read, name)
		it.Does(t, b, "unlock", Read, name)
		it.Unlocked(t, it.Got(t, lock(name)))
	})
}

// Redisson keeps one deadline for all readers and works it out anew whenever one of
// them leaves or is renewed, from what each has left there: ours too.
func readersStay(t *testing.T, r *rig) {
	const span = 3 * briefWatchdog / 2
	java := r.brief.Thread(1)
	url := r.url(redissonlock.ReadWrite) + "&watchdog=" + briefWatchdog.String()
	c := client(t, url, &leasehold.Options{TTL: briefWatchdog})
	read := func(name string) *leasehold.Lease {
		t.Helper()
		return it.Got(t, it.RLock(t, c, name))
	}
	theirs, ours := it.NameOf(t)+":theirs", it.NameOf(t)+":ours"
	for _, name := range []string{theirs, ours} {
		it.Does(t, java, "lock", Read, name)
	}
	leaves, stays := read(theirs), read(ours)
	it.Unlocked(t, leaves)
	it.Does(t, java, "unlock", Read, ours)
	writes := r.java.Thread(1).Go("tryLock", Write, ours, millis(span))
	it.Refused(t, c, theirs, span)
	if got := it.Answered(t, writes); got.Err != nil || got.Value != "false" {
		t.Errorf("Java writes while we read: %+v", got)
	}
	it.Does(t, java, "unlock", Read, theirs)
	it.Unlocked(t, stays)
}

// Writers of both sides increment, readers of both come in between, and those of
// ours see whether somebody writes beside them.
func mixedCounter(t *testing.T, r *rig) {
	times, reads := it.Rounds(200, 50), it.Rounds(100, 25)
	name, key := it.NameOf(t), it.NameOf(t)+":number"
	c := client(t, r.url(redissonlock.ReadWrite), nil)
	ctx := it.Within(t)
	gate := it.Got(t, it.Lock(t, c, name))
	java := []<-chan Answer{
		r.java.Thread(1).Go("add", Write, name, key, strconv.Itoa(times)),
		r.java.Thread(2).Go("pairs", Read, name, strconv.Itoa(reads)),
	}
	errs := make(chan error, 2)
	go func() { errs <- add(ctx, c, name, r.server.Addr, key, times) }()
	go func() { errs <- watch(ctx, c, name, r.server.Addr, key, reads) }()
	r.listening(t, channelOfReadWrite(name), 1)
	it.Unlocked(t, gate)
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("ours: %v", err)
		}
	}
	for _, c := range java {
		if got := it.Answered(t, c); got.Err != nil {
			t.Errorf("Java: %v", got.Err)
		}
	}
	if n, err := number(r.do(t, "GET", key), nil); err != nil || n != 2*times {
		t.Errorf("%d increments were made and %d are there: %v", 2*times, n, err)
	}
}

// watch reads a number twice under each of so many read locks.
func watch(ctx context.Context, c *leasehold.Client, name, addr, key string, times int) error {
	conn, err := servers.DialRedis(addr, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range times {
		l, err := c.RLock(ctx, name)
		if err != nil {
			return err
		}
		before, err := number(conn.Do("GET", key))
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
		after, err := number(conn.Do("GET", key))
		if err != nil {
			return err
		}
		if before != after {
			return fmt.Errorf("the number went from %d to %d while somebody read", before, after)
		}
		if err := l.Unlock(); err != nil {
			return err
		}
	}
	return nil
}
