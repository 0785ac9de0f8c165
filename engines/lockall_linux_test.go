package engines

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/lab/servers"
)

// Two clients lock several of a few names each time, and now and then do not wait. Each
// name has one holder, and all come to an end.
func TestLockAllExcludesOnEveryEngine(t *testing.T) {
	t.Parallel()
	all := func(t *testing.T, f func(t *testing.T, url string)) {
		overAll(t, f)
		t.Run("plainlock", func(t *testing.T) {
			beside(t)
			f(t, "redis://"+servers.Redis(t, nil).Addr+"?layout=plain")
		})
		if testing.Short() {
			return // make test-long has the others
		}
		t.Run("mysqllock", func(t *testing.T) {
			beside(t)
			f(t, servers.MariaDB(t, nil).URL("", ""))
		})
		t.Run("redissonlock", func(t *testing.T) {
			beside(t)
			f(t, "redisson://"+servers.Redis(t, nil).Addr)
		})
		t.Run("redlock", func(t *testing.T) {
			beside(t)
			var addrs []string
			for range 3 {
				addrs = append(addrs, servers.Redis(t, nil).Addr)
			}
			f(t, "redlock://"+strings.Join(addrs, ",")+"?restart-delay=off&max-ttl=10s")
		})
	}
	all(t, func(t *testing.T, url string) {
		const names = "abcde"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var holders, turns [len(names)]atomic.Int32
		var wg sync.WaitGroup
		for client := range 2 {
			eng, err := Open(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			c, err := leasehold.New(eng, &leasehold.Options{TTL: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for caller := range 3 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(client), uint64(caller)))
					for turn := range 12 {
						pick := rng.Perm(len(names))[:3]
						ask := c.LockAll
						if turn%4 == 3 {
							ask = c.TryLockAll
						}
						held, err := ask(ctx, names[pick[0]:pick[0]+1], names[pick[1]:pick[1]+1], names[pick[2]:pick[2]+1])
						if errors.Is(err, leasehold.ErrHeld) && turn%4 == 3 {
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						for _, i := range pick {
							if holders[i].Add(1) > 1 {
								t.Errorf("%q has two holders", names[i])
							}
							turns[i].Add(1)
						}
						for _, i := range pick {
							holders[i].Add(-1)
						}
						if err := held.Unlock(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		for i := range turns {
			if turns[i].Load() == 0 {
				t.Errorf("void: nobody held %q", names[i])
			}
		}
	})
}
