package plainlock

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestHostileKeys: anything at the lock's key and at the one beside it, by a seed that
// is told. A name beside it is what it was.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	join(t, e, testutil.Lasting("beside", time.Hour)) // it must not be over before the test is
	before := do(t, r, "DUMP", "beside")
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	const name, key = "a", side + "n{a}"
	set := func(at string) {
		args := append([]string{}, redistest.Wrong[rnd.IntN(len(redistest.Wrong))]...)
		args[1] = at
		do(t, r, args...)
	}
	for n := range testutil.Sized(300, 60) {
		do(t, r, "DEL", name, key)
		q := exclusive(name)
		c := join(t, e, q)
		if rnd.IntN(2) == 0 {
			for range 1 + rnd.IntN(3) {
				do(t, r, "HSET", key, []string{"ticket", "id", "owner", "asked", "evicted", "left"}[rnd.IntN(6)], redistest.Junk(rnd))
			}
		} else {
			do(t, r, "DEL", key)
			set(key)
		}
		switch rnd.IntN(5) {
		case 0:
			do(t, r, "DEL", name)
		case 1:
			do(t, r, "DEL", name)
			set(name)
		case 2:
			do(t, r, "SET", name, redistest.Junk(rnd))
		case 3:
			do(t, r, "PEXPIRE", name, "9000000000000000")
		}
		was := []any{do(t, r, "TYPE", name), do(t, r, "TYPE", key), do(t, r, "PTTL", name)}
		redistest.Hostile(t, e, name, name+" "+key, []engine.ID{c.ID, engine.NewID()},
			func(int32) engine.Request { return exclusive(name) }, engine.Max)
		if t.Failed() {
			t.Fatalf("seed %d, round %d: of the types %v", seed, n, was)
		}
	}
	if do(t, r, "DUMP", "beside") != before {
		t.Error("another name was touched")
	}
}

// TestALifetimeThatNobodyAskedFor: what is beside a lock says that its claim asked for
// ages. That is nobody's record, and costs the claim nothing.
func TestALifetimeThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	c := join(t, e, exclusive("a"))
	do(t, r, "HSET", side+"n{a}", "asked", "9223372036854775807")
	got, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: c.ID, Want: time.Minute}})
	if err != nil || len(got) != 1 || got[0].State != engine.Held || got[0].TTL > time.Minute {
		t.Errorf("renewed: %+v, %v", got, err)
	}
}

// TestTheKeyBesideIsBlamed, and not the lock, which is right.
func TestTheKeyBesideIsBlamed(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	const key = side + "n{a}"
	for _, set := range [][]string{{"SET", key, "v"}, {"HSET", key, "ticket", "9007199254740991", "id", "x", "asked", "1"}, {"HSET", key, "ticket", "many"}} {
		do(t, r, "FLUSHALL")
		do(t, r, set...)
		was := do(t, r, "DUMP", key)
		_, err := e.Join(within(t), exclusive("a"))
		if err == nil || !strings.Contains(err.Error(), `the key "`+key+`"`) || strings.Contains(err.Error(), "clock") {
			t.Errorf("%v: %v", set, err)
		}
		if do(t, r, "EXISTS", "a") != int64(0) || do(t, r, "DUMP", key) != was {
			t.Errorf("%v: something was changed", set)
		}
		// Who holds goes on, and leaves.
		do(t, r, "DEL", key)
		c := join(t, e, exclusive("a"))
		do(t, r, "DEL", key)
		do(t, r, set...)
		if c := renew(t, e, c, time.Minute); c.State != engine.Held {
			t.Errorf("%v: who holds is %v", set, c.State)
		}
		if s := leave(t, e, c); s != engine.Held {
			t.Errorf("%v: who held left as %v", set, s)
		}
	}
}
