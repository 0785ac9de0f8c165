package redisson

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine/redis"
	"leasehold/engine/redis/redissonlock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
	"leasehold/lab/servers/fleet"
)

// copied is what a copy of this test binary does, by its arguments:
//
//	hold URL NAME TTL           lock, say "held", and never unlock
//	add URL NAME ADDR KEY TIMES read a number and write it back one higher, under the lock
func copied(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), it.Bound)
	defer cancel()
	eng, err := redis.Open(ctx, args[1])
	if err != nil {
		return err
	}
	ttl := leasehold.DefaultTTL
	if args[0] == "hold" {
		if ttl, err = time.ParseDuration(args[3]); err != nil {
			return err
		}
	}
	c, err := leasehold.New(eng, &leasehold.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer c.Close()
	if args[0] == "hold" {
		if _, err := c.Lock(ctx, args[2]); err != nil {
			return err
		}
		fleet.Print("held")
		bufio.NewReader(os.Stdin).ReadByte() // until it is killed
		return nil
	}
	times, err := strconv.Atoi(args[5])
	if err != nil {
		return err
	}
	return add(ctx, c, args[2], args[3], args[4], times)
}

func add(ctx context.Context, c *leasehold.Client, name, addr, key string, times int) error {
	conn, err := servers.DialRedis(addr, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range times {
		l, err := c.Lock(ctx, name)
		if err != nil {
			return err
		}
		n, err := number(conn.Do("GET", key))
		if err != nil {
			return err
		}
		if _, err := conn.Do("SET", key, strconv.Itoa(n+1)); err != nil {
			return err
		}
		if err := l.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

// number reads a GET: nothing is 0.
func number(v any, err error) (int, error) {
	if err != nil || v == nil {
		return 0, err
	}
	return strconv.Atoi(v.(string))
}

// Two processes of ours and two of Java, each of which must get the lock as often
// as the others. Nothing but the lock protects the number.
func counter(t *testing.T, r *rig) {
	times := it.Rounds(500, 100)
	name, key := it.NameOf(t), it.NameOf(t)+":number"
	gate := locked(t, r.client(t, nil), name)
	var java []<-chan Answer
	for _, p := range []*Process{r.java, r.brief} {
		java = append(java, p.Thread(1).Go("add", Lock, name, key, strconv.Itoa(times)))
	}
	ours := make(chan error, 1)
	ctx := it.Within(t)
	go func() {
		args := []string{"add", r.url(redissonlock.Lock), name, r.server.Addr, key, strconv.Itoa(times)}
		ours <- fleet.Run(ctx, 2, t.TempDir(), args, func(int, string) {})
	}()
	r.listening(t, channelOf(name), 4) // all begin at once
	it.Unlocked(t, gate)
	if err := <-ours; err != nil {
		t.Errorf("ours: %v", err)
	}
	for _, c := range java {
		if got := it.Answered(t, c); got.Err != nil {
			t.Errorf("Java: %v", got.Err)
		}
	}
	if n, err := number(r.do(t, "GET", key), nil); err != nil || n != 4*times {
		t.Errorf("%d increments were made and %d are there: %v", 4*times, n, err)
	}
}

func killed(t *testing.T, r *rig) {
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		a := r.java.Thread(1)
		ctx, kill := context.WithCancel(it.Within(t))
		defer kill()
		held := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			args := []string{"hold", r.url(redissonlock.Lock), name, "5s"}
			ended <- fleet.Run(ctx, 1, t.TempDir(), args, func(int, string) { close(held) })
		}()
		select {
		case <-held:
		case err := <-ended:
			t.Fatalf("the holder has ended: %v", err)
		}
		waits := a.Go("lock", Lock, name)
		r.listening(t, channelOf(name), 1)
		kill()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := r.do(t, "EXISTS", name); n != int64(1) {
			t.Error("the dead holder's lock was gone at once: it has unlocked")
		}
		if got := it.Answered(t, waits); got.Err != nil {
			t.Errorf("Java: %v", got.Err)
		}
		it.Does(t, a, "unlock", Lock, name)
	})
	t.Run("Java", func(t *testing.T) {
		name := it.NameOf(t)
		c := r.client(t, nil)
		it.Does(t, r.brief.Thread(1), "lock", Lock, name)
		waits := it.Lock(t, c, name)
		r.listening(t, channelOf(name), 1)
		r.brief.Kill()
		if n := r.do(t, "EXISTS", name); n != int64(1) {
			t.Error("the dead holder's lock was gone at once: it has unlocked")
		}
		it.Unlocked(t, it.Got(t, waits))
	})
}
