package redisson

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine/redis/redissonlock"
	"leasehold/internal/servers"
)

// Redisson wakes at the message 1, which follows a writer, only threads that sleep
// (getQueueLength in its LockPubSub). One that has not yet read its answer "taken"
// would then sleep until the writer's lease were over.
func aWakeIsLost(t *testing.T, r *rig) {
	proxy := servers.ProxyTo(t, r.server.Addr)
	java := started(t, r.program, Options{Addrs: []string{proxy.Addr}})
	for _, kind := range []string{Write, Read} {
		name := nameOf(t) + kind
		a := java.Thread(1)
		does(t, a, "lock", kind, name) // knows the server, and the server the scripts
		does(t, a, "unlock", kind, name)
		e := &hearing{Engine: opened(t, r.url(redissonlock.ReadWrite)+"&watchdog=1m")}
		holds := e.joinFor(t, name, 2*bound)
		// It tries, subscribes, and tries again: that answer is on its way for a while.
		proxy.OnCommand(func(command string) {
			if command == "SUBSCRIBE" {
				proxy.HoldReply("EVAL", "EVALSHA")
			}
		})
		before := r.scripts(t)
		waits := a.Go("lock", kind, name)
		until(t, "Java has tried twice", func() bool { return r.scripts(t)-before >= 2 })
		proxy.OnCommand(nil)
		e.leave(t, holds)
		time.Sleep(100 * time.Millisecond) // Java has heard of it
		proxy.ReleaseReply()
		began := time.Now()
		if got := answered(t, waits); got.Err != nil {
			t.Fatalf("Java: %v", got.Err)
		}
		t.Logf("%s: Java holds %v after it has its answer", kind, time.Since(began))
		does(t, a, "unlock", kind, name)
	}
}

func readersAndWriters(t *testing.T, r *rig) {
	c := client(t, r.url(redissonlock.ReadWrite), nil)
	a, b := r.java.Thread(1), r.java.Thread(2)
	rlock := func(name string) <-chan lockResult {
		return asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.RLock(ctx, name) })
	}
	lock := func(name string) <-chan lockResult {
		return asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.Lock(ctx, name) })
	}
	java := func(t *testing.T, kind, name, want string) {
		t.Helper()
		if got := does(t, b, "tryLock", kind, name, "0"); got != want {
			t.Errorf("another thread's %s lock: %s instead of %s", kind, got, want)
		} else if got == "true" {
			does(t, b, "unlock", kind, name)
		}
	}
	channel := channelOfReadWrite

	t.Run("readers share, and a writer of ours waits for all", func(t *testing.T) {
		name := nameOf(t)
		does(t, a, "lock", Read, name)
		l := got(t, rlock(name))
		java(t, Read, name, "true")
		java(t, Write, name, "false")
		writer := lock(name)
		r.listening(t, channel(name), 1)
		unlocked(t, l)
		refused(t, c, name, leasehold.NoWait)
		does(t, a, "unlock", Read, name)
		w := got(t, writer)
		java(t, Read, name, "false")
		unlocked(t, w)
		java(t, Write, name, "true")
	})
	t.Run("readers share, and a writer of Java's waits for all", func(t *testing.T) {
		name := nameOf(t)
		does(t, a, "lock", Read, name)
		l := got(t, rlock(name))
		writer := b.Go("lock", Write, name)
		r.listening(t, channel(name), 1)
		does(t, a, "unlock", Read, name)
		unlocked(t, l) // the last reader is ours, and it tells
		if got := answered(t, writer); got.Err != nil {
			t.Fatal(got.Err)
		}
		refused(t, c, name, leasehold.NoWait)
		if l, err := c.With(leasehold.LockOptions{Wait: leasehold.NoWait}).RLock(within(t), name); err == nil {
			l.Unlock()
			t.Error("we read while Java writes")
		}
		does(t, b, "unlock", Write, name)
	})
	t.Run("a writer of Java's wakes our readers", func(t *testing.T) {
		name := nameOf(t)
		does(t, a, "lock", Write, name)
		one, two := rlock(name), rlock(name)
		r.listening(t, channel(name), 1)
		does(t, a, "unlock", Write, name)
		unlocked(t, got(t, one))
		unlocked(t, got(t, two))
	})
	t.Run("a writer of ours wakes Java's readers", func(t *testing.T) {
		name := nameOf(t)
		w := got(t, lock(name))
		one, two := a.Go("lock", Read, name), b.Go("lock", Read, name)
		r.listening(t, channel(name), 1) // both threads by one subscription
		unlocked(t, w)
		for _, c := range []<-chan Answer{one, two} {
			if got := answered(t, c); got.Err != nil {
				t.Error(got.Err)
			}
		}
		refused(t, c, name, leasehold.NoWait)
		does(t, a, "unlock", Read, name)
		does(t, b, "unlock", Read, name)
		unlocked(t, got(t, lock(name)))
	})
}

// Redisson keeps one deadline for all readers and works it out anew whenever one of
// them leaves or is renewed, from what each has left there: ours too.
func readersStay(t *testing.T, r *rig) {
	const span = 5 * briefWatchdog / 2
	java := r.brief.Thread(1)
	url := r.url(redissonlock.ReadWrite) + "&watchdog=" + briefWatchdog.String()
	c := client(t, url, &leasehold.Options{TTL: briefWatchdog})
	read := func(name string) *leasehold.Lease {
		t.Helper()
		return got(t, asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.RLock(ctx, name) }))
	}
	theirs, ours := nameOf(t)+":theirs", nameOf(t)+":ours"
	for _, name := range []string{theirs, ours} {
		does(t, java, "lock", Read, name)
	}
	leaves, stays := read(theirs), read(ours)
	unlocked(t, leaves)
	does(t, java, "unlock", Read, ours)
	writes := r.java.Thread(1).Go("tryLock", Write, ours, millis(span))
	refused(t, c, theirs, span)
	if got := answered(t, writes); got.Err != nil || got.Value != "false" {
		t.Errorf("Java writes while we read: %+v", got)
	}
	does(t, java, "unlock", Read, theirs)
	unlocked(t, stays)
}

// Writers of both sides increment, readers of both come in between, and those of
// ours see whether somebody writes beside them.
func mixedCounter(t *testing.T, r *rig) {
	const times, reads = 200, 100
	name, key := nameOf(t), nameOf(t)+":number"
	c := client(t, r.url(redissonlock.ReadWrite), nil)
	ctx := within(t)
	gate := got(t, asks(t, func(ctx context.Context) (*leasehold.Lease, error) { return c.Lock(ctx, name) }))
	java := []<-chan Answer{
		r.java.Thread(1).Go("add", Write, name, key, strconv.Itoa(times)),
		r.java.Thread(2).Go("pairs", Read, name, strconv.Itoa(reads)),
	}
	errs := make(chan error, 2)
	go func() { errs <- add(ctx, c, name, r.server.Addr, key, times) }()
	go func() { errs <- watch(ctx, c, name, r.server.Addr, key, reads) }()
	r.listening(t, channelOfReadWrite(name), 1)
	unlocked(t, gate)
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("ours: %v", err)
		}
	}
	for _, c := range java {
		if got := answered(t, c); got.Err != nil {
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
