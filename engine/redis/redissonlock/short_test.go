package redissonlock

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestAPairTakesFewCommands counts those inside the scripts of a lock and unlock that
// nobody else wants, too.
func TestAPairTakesFewCommands(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := locks.Opened(t, "redis://"+r.Addr)
	count := func() int64 { return redistest.CountCalls(do(t, r, "INFO", "commandstats").(string)) }
	leave(t, e, join(t, e, exclusive("a"))) // the scripts are known
	const pairs = 20
	before := count()
	for range pairs {
		leave(t, e, join(t, e, exclusive("a")))
	}
	// Two scripts, and INFO by this test.
	if n := count() - before - 1; n > 18*pairs {
		t.Errorf("%d pairs took %d commands: want 18 each at most", pairs, n)
	}
}

// TestTheShortWayIsTheLongOne compares what scripts answer and store with what they do
// without the short way for a lock that nobody else wants.
func TestTheShortWayIsTheLongOne(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{Lock, Fenced} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			sameWays(t, kind)
		})
	}
}

func sameWays(t *testing.T, kind Kind) {
	r := servers.Redis(t, nil)
	e := of(kind, "").Opened(t, "redis://"+r.Addr).(*Engine)
	timed := func(text string) *redisconn.Script {
		return redisconn.NewScript(strings.ReplaceAll(text, "redis.call('TIME')", "{redis.call('GET', 'sec'), 0}"))
	}
	cut := func(s *redisconn.Script, short string) *redisconn.Script {
		long := strings.Replace(s.Text(), short, "", 1)
		if long == s.Text() {
			t.Fatal("void: the short way is not in the script")
		}
		return timed(long)
	}
	ways := map[string]map[string]*redisconn.Script{
		"short": {"join": timed(e.scripts.join.Text()), "leave": timed(e.scripts.leave.Text())},
		"long":  {"join": cut(e.scripts.join, text("lock_free")), "leave": cut(e.scripts.leave, text("lock_alone"))},
	}
	digest := regexp.MustCompile(`[0-9a-f]{40}.*`)
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		do(t, r, "FLUSHALL")
		var ids []string
		for range 3 {
			ids = append(ids, holder(engine.NewID()))
		}
		now := time.Now().Unix()
		for step := range testutil.Sized(120, 40) {
			now += int64(rng.IntN(3) - 1)
			do(t, r, "SET", "sec", fmt.Sprint(now))
			h, odd := ids[rng.IntN(len(ids))], rng.IntN(10)
			which, args := "join", []string{h, parts.Millis(time.Minute), "owner", "", "0", parts.Flag(odd == 0)}
			if rng.IntN(2) == 0 {
				which, args = "leave", []string{h, parts.Flag(odd == 0)}
			}
			got := map[string]any{}
			for way, scripts := range ways {
				lock, side := way, redisconn.KeyBeside(beside, way)
				switch {
				case odd == 1:
					do(t, r, "DEL", lock)
				case odd == 2:
					do(t, r, "DEL", side)
				case odd == 3 && step%3 == 0:
					r.Do("HSET", lock, h, "2") // not where somebody's data is
				case odd == 4:
					r.Do("HSET", side, "evicted", h)
				case odd == 5 && step%2 == 0:
					r.Do("HSET", side, "last", "9007199254740991")
				case odd == 6 && step%2 == 0:
					r.Do("HSET", side, h, "no record")
				case odd == 7 && step%5 == 0:
					do(t, r, "DEL", lock, side)
					do(t, r, "SET", []string{lock, side}[step%2], "somebody's")
				case odd == 8:
					do(t, r, "DEL", lock, side)
				}
				call := e.call(way, args...)
				if kind == Fenced && which == "join" {
					call.Keys = append(call.Keys, "count:"+way)
				}
				said, err := e.wire.Call(within(t), scripts[which], call).ToAny()
				dump := []any{said, ""}
				if err != nil {
					dump[1] = strings.ReplaceAll(digest.ReplaceAllString(err.Error(), ""), way, "")
				}
				for _, k := range []string{lock, side} {
					fields, _ := e.wire.Ask(within(t), "HGETALL", k).AsStrMap()
					left, _ := e.wire.Ask(within(t), "PTTL", k).AsInt64()
					dump = append(dump, fields, (left+5000)/10_000) // what is left goes on running
				}
				if list, ok := said.([]any); ok && len(list) > 2 {
					if left, ok := list[2].(int64); ok && left > 1000 {
						list[2] = (left + 5000) / 10_000
					}
				}
				got[way] = dump
			}
			if !reflect.DeepEqual(got["short"], got["long"]) {
				t.Fatalf("seed %d, step %d (%d), %s %q:\nshort %q\nlong  %q", seed, step, odd, which, args, got["short"], got["long"])
			}
		}
	}
}
