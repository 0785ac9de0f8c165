package redissonlock

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/lab/servers"
)

// TestBusyProgramLetsRedissonIn: eight callers of one Go program never leave the name
// alone, and a thread with Redisson, which tries when it is told, gets it before they
// have had it many thousand times.
func TestBusyProgramLetsRedissonIn(t *testing.T) {
	t.Parallel()
	const most = 100_000
	r := servers.Redis(t, nil)
	locks, err := leasehold.New(locks.Opened(t, "redis://"+r.Addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	var held, last atomic.Int64
	last.Store(math.MaxInt64) // until Redisson waits, which may take its time
	var got atomic.Bool
	var all sync.WaitGroup
	begun := make(chan struct{}, 1)
	for range 8 {
		all.Go(func() {
			for !got.Load() && held.Load() < last.Load() {
				l, err := locks.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				held.Add(1)
				select {
				case begun <- struct{}{}:
				default:
				}
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	<-begun
	waits := listening(t, r, "redisson_lock__channel:{a}")
	before := held.Load()
	last.Store(before + most)
	const lock = `if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
		redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 30000) return 1`
	for tries := 0; do(t, r, "EVAL", lock, "1", "a", program(t, r).holder) != int64(1); tries++ {
		select {
		case <-waits:
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody tells that the lock is free; it was tried %d times", tries)
		}
		if held.Load() >= last.Load() {
			t.Fatalf("it was tried %d times", tries)
		}
	}
	got.Store(true)
	n := held.Load() - before
	t.Logf("the Go program has held it %d times meanwhile", n)
	do(t, r, "DEL", "a")
	do(t, r, "PUBLISH", "redisson_lock__channel:{a}", "0")
	all.Wait()
}
