package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/redis/plainlock"
	"leasehold/engine/redis/redlock"
	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
)

// plainEnv makes the test binary one process of TestPlainLayoutIsSharedLive:
// who locks, the servers, the folder and how often.
const plainEnv = "LEASEHOLD_BENCH_PLAIN"

// TestPlainLayoutIsSharedLive has two processes of leasehold and two of a competitor
// add to one number that nothing but the lock protects. Each side must wait for
// the other and be waited for; no addition may be lost. redlock shares the keys of
// redsync on several masters in the same way.
func TestPlainLayoutIsSharedLive(t *testing.T) {
	if job := os.Getenv(plainEnv); job != "" {
		if err := plainProcess(t.Context(), strings.Split(job, "|")); err != nil {
			t.Fatal(err)
		}
		return
	}
	servers.Need(t, "redis-server")
	const rounds = 40
	for title, c := range map[string]struct {
		competitor string
		masters    int
	}{"redsync": {"redsync", 1}, "redislock": {"redislock", 1}, "redsync on five masters": {"redsync", 5}} {
		t.Run(title, func(t *testing.T) {
			competitor := c.competitor
			var addrs []string
			for range c.masters {
				addrs = append(addrs, servers.Redis(t, nil).Addr)
			}
			dir := t.TempDir()
			var cmds []*exec.Cmd
			for i := range 4 {
				who := "leasehold"
				if i%2 == 1 {
					who = competitor
				}
				cmd := exec.Command(os.Args[0], "-test.run=^TestPlainLayoutIsSharedLive$", "-test.timeout=100s")
				cmd.Env = append(os.Environ(), plainEnv+"="+strings.Join([]string{who, strings.Join(addrs, ","), dir, strconv.Itoa(rounds)}, "|"))
				cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				cmds = append(cmds, cmd)
			}
			for _, cmd := range cmds {
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
			wrote, err := os.ReadFile(filepath.Join(dir, "number"))
			if err != nil {
				t.Fatal(err)
			}
			order, err := os.ReadFile(filepath.Join(dir, "order"))
			if err != nil {
				t.Fatal(err)
			}
			if string(wrote) != strconv.Itoa(4*rounds) {
				t.Errorf("counted %s of %d", wrote, 4*rounds)
			}
			// Who held after whom: both ways, or one side never waited.
			there, back := 0, 0
			holders := strings.Fields(string(order))
			for i := 1; i < len(holders); i++ {
				switch {
				case holders[i-1] == "leasehold" && holders[i] == competitor:
					there++
				case holders[i-1] == competitor && holders[i] == "leasehold":
					back++
				}
			}
			if there < 2 || back < 2 {
				t.Errorf("void: %d times from leasehold to %s and %d times back", there, competitor, back)
			}
		})
	}
}

// locking is a lock of either side.
type locking func(ctx context.Context) (unlock func() error, err error)

func plainProcess(ctx context.Context, job []string) error {
	who, addrs, dir := job[0], strings.Split(job[1], ","), job[2]
	rounds, err := strconv.Atoi(job[3])
	if err != nil {
		return err
	}
	lock, closer, err := plainLock(ctx, who, addrs)
	if err != nil {
		return err
	}
	defer closer()
	if err := plainReady(dir); err != nil {
		return err
	}
	for range rounds {
		unlock, err := lock(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
		if err := plainAdd(dir, who); err != nil {
			return err
		}
		if err := unlock(); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
		time.Sleep(30 * time.Millisecond) // or one process would do all its rounds at once
	}
	return nil
}

// plainReady waits until all four are ready, or one could be done before another has
// begun.
func plainReady(dir string) error {
	f, err := os.CreateTemp(dir, "ready")
	if err != nil {
		return err
	}
	f.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ready, err := filepath.Glob(filepath.Join(dir, "ready*")); err != nil || len(ready) == 4 {
			return err
		}
	}
	return errors.New("the others are not ready")
}

func plainLock(ctx context.Context, who string, addrs []string) (locking, func(), error) {
	const name = "shared {with} others"
	if who == "leasehold" {
		var eng engine.Engine
		var err error
		if len(addrs) == 1 {
			eng, err = plainlock.Open(ctx, "redis://"+addrs[0])
		} else {
			// The masters have just been started, and have not forgotten anything.
			eng, err = redlock.Open(ctx, "redlock://"+strings.Join(addrs, ",")+"?restart-delay=off&timeout=5s")
		}
		if err != nil {
			return nil, nil, err
		}
		locks, err := leasehold.New(eng, nil)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (func() error, error) {
			l, err := locks.Lock(ctx, name)
			if err != nil {
				return nil, err
			}
			return l.Unlock, nil
		}, func() { locks.Close() }, nil
	}
	competitor := competitors.Redsync(redsync5, "", func(addrs []string) []string { return addrs })
	if who == "redislock" {
		competitor = competitors.Redislock()
	}
	l, err := competitor.Open(ctx, harness.Endpoint{Addrs: addrs})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (func() error, error) {
		for {
			unlock, err := l.Lock(ctx, name)
			if err == nil {
				return unlock, nil
			}
			// redsync gives up after 32 tries and is called again.
			if ctx.Err() != nil || !strings.Contains(err.Error(), "lock") {
				return nil, err
			}
		}
	}, func() { l.Close() }, nil
}

// plainAdd reads, waits a moment and writes: two at once lose an addition.
func plainAdd(dir, who string) error {
	number := filepath.Join(dir, "number")
	text, err := os.ReadFile(number)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	n, _ := strconv.Atoi(string(text)) // empty at first
	time.Sleep(2 * time.Millisecond)
	if err := os.WriteFile(number, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "order"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, who); err != nil {
		return err
	}
	return f.Close()
}
