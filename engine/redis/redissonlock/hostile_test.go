package redissonlock

import (
	"math/rand/v2"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestHostileKeys: anything at the lock's key, at the one beside it, and at those of
// Redisson, by a seed that is told. A name beside it is what it was.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for _, k := range []Kind{Lock, Fenced, ReadWrite} {
		e := of(k, "").Opened(t, "redis://"+r.Addr)
		join(t, e, testutil.Lasting("beside", time.Hour)) // it must not be over before the test is
		before := do(t, r, "DUMP", "beside")
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 1))
		const name, key, count = "a", beside + "n{a}", counter + "{a}"
		set := func(at string) {
			args := append([]string{}, redistest.Wrong[rnd.IntN(len(redistest.Wrong))]...)
			args[1] = at
			do(t, r, "DEL", at)
			do(t, r, args...)
		}
		for n := range testutil.Sized(150, 30) {
			do(t, r, "DEL", name, key, count)
			c := join(t, e, exclusive(name))
			h := holder(c.ID)
			timeouts := "{a}:" + h + ":rwlock_timeout:1"
			for range 1 + rnd.IntN(3) {
				switch rnd.IntN(9) {
				case 0:
					set(key)
				case 1:
					set(name)
				case 2:
					set(count)
				case 3:
					set(timeouts)
				case 4:
					do(t, r, "DEL", key)
					do(t, r, "HSET", key, []string{"last", "evicted", "left", h}[rnd.IntN(4)], redistest.Junk(rnd))
				case 5:
					do(t, r, "DEL", name)
					do(t, r, "HSET", name, []string{"mode", h, h + ":write", "x:1", "x:1:write", ""}[rnd.IntN(6)], redistest.Junk(rnd))
				case 6:
					do(t, r, "DEL", name)
					do(t, r, "HSET", name, "mode", redistest.Junk(rnd), h, redistest.Junk(rnd), "x:-1", redistest.Junk(rnd))
				case 7:
					do(t, r, "PEXPIRE", name, "9000000000000000")
				case 8:
					do(t, r, "SET", count, redistest.Junk(rnd))
				}
			}
			was := []any{do(t, r, "TYPE", name), do(t, r, "TYPE", key), do(t, r, "TYPE", count), do(t, r, "PTTL", name)}
			redistest.Hostile(t, e, name, name+" "+key+" "+count+" "+timeouts, []engine.ID{c.ID, engine.NewID()},
				func(int32) engine.Request { return exclusive(name) }, engine.Max)
			if t.Failed() {
				t.Fatalf("%s: seed %d, round %d: of the types %v", k, seed, n, was)
			}
			do(t, r, "DEL", timeouts)
		}
		if do(t, r, "DUMP", "beside") != before {
			t.Errorf("%s: another name was touched", k)
		}
		do(t, r, "FLUSHALL")
	}
}

// TestManyEntriesAreNotWalked: ten thousand readers who entered ten thousand times each
// would keep the server from everybody.
func TestManyEntriesAreNotWalked(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := readWrite.Opened(t, "redis://"+r.Addr)
	args := []string{"HSET", "a", "mode", "read"}
	for i := range 9000 {
		args = append(args, "x:"+itoa(int64(i)), "10000")
	}
	do(t, r, args...)
	do(t, r, "CONFIG", "RESETSTAT")
	redistest.Hostile(t, e, "a", "a", []engine.ID{engine.NewID()}, func(int32) engine.Request { return exclusive("a") }, engine.Max)
	if n := calls(t, r); n > 1000 {
		t.Errorf("%d commands for a few calls", n)
	}
}
