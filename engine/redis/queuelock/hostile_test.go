package queuelock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestHostileFields: what an operator's slip or another program leaves at the key of a
// queue. Nothing panics, nothing runs for ever, and who is refused hears which key it was.
func TestHostileFields(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	self := strings.Repeat("s", 16)
	crowd := func(name string) (string, map[string]string) {
		for range 3 {
			join(t, e, kind(name, engine.Max, engine.Max))
		}
		return e.key(name), fields(t, r, e.key(name))
	}
	for what, change := range map[string]func(key string, was map[string]string){
		"an empty m": func(key string, _ map[string]string) { do(t, r, "HSET", key, "m", "") },
		"every next is itself": func(key string, was map[string]string) {
			for id, text := range was {
				if id != "m" {
					do(t, r, "HSET", key, id, id+text[16:])
				}
			}
		},
		"the first waiter is nobody": func(key string, was map[string]string) {
			do(t, r, "HSET", key, "m", was["m"][:81]+self+was["m"][97:])
		},
		"the first is nobody": func(key string, was map[string]string) {
			do(t, r, "HSET", key, "m", was["m"][:65]+self+was["m"][81:])
		},
		"no claims": func(key string, was map[string]string) {
			for id := range was {
				if id != "m" {
					do(t, r, "HDEL", key, id)
				}
			}
		},
		"short claims": func(key string, was map[string]string) {
			for id := range was {
				if id != "m" {
					do(t, r, "HSET", key, id, was[id][:20])
				}
			}
		},
		"times beyond all numbers": func(key string, was map[string]string) {
			do(t, r, "HSET", key, "m", was["m"][:1]+strings.Repeat("\xff", 40)+was["m"][41:])
		},
		"a ring of which nobody has permits": func(key string, was map[string]string) {
			for id, text := range was {
				if id != "m" {
					do(t, r, "HSET", key, id, id+text[16:41]+"\x00\x00\x00\x00"+text[45:])
				}
			}
			do(t, r, "HSET", key, "m", "F"+was["m"][1:])
		},
	} {
		t.Run(what, func(t *testing.T) {
			key, was := crowd(what)
			change(key, was)
			hostile(t, r, e, what, key, ids(was))
		})
	}
}

// TestTimesWhoseSumsAreNotExact: each is a number that a double holds, and what would be
// stored behind it is not. So the queue is refused before it is written to.
func TestTimesWhoseSumsAreNotExact(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	key := e.key("a")
	join(t, e, exclusive("a"))
	was := fields(t, r, key)["m"]
	late := string(binary.BigEndian.AppendUint64(nil, 1<<53-2))
	damaged := was[:17] + late + late + was[33:] // its deadline, and what it asked for
	do(t, r, "HSET", key, "m", damaged)
	if c, err := e.Join(within(t), exclusive("a")); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), key) {
		t.Errorf("who comes next is %v, %v", c.State, err)
	}
	if is := fields(t, r, key)["m"]; is != damaged {
		t.Error("it was written to")
	}
}

// TestMoreFieldsThanClaims: a queue with more than it can have is not read, for whatever
// call that has to look at all of it.
func TestMoreFieldsThanClaims(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	key := e.key("a")
	held := join(t, e, exclusive("a"))
	join(t, e, exclusive("a"))
	args := []string{"HSET", key}
	for i := range engine.MaxQueue {
		args = append(args, fmt.Sprint("another program's ", i), "v")
	}
	do(t, r, args...)
	if err := e.Revoke(within(t), "a", held.Ticket, false); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), key) {
		t.Errorf("Revoke: %v", err)
	}
}

// ids are those of the claims of a stored queue.
func ids(fields map[string]string) (all []engine.ID) {
	for id := range fields {
		if len(id) == 16 {
			all = append(all, engine.ID([]byte(id)))
		}
	}
	return all
}

func fields(t testing.TB, r *servers.RedisServer, key string) map[string]string {
	t.Helper()
	all := map[string]string{}
	list := do(t, r, "HGETALL", key).([]any)
	for i := 0; i < len(list); i += 2 {
		all[list[i].(string)] = list[i+1].(string)
	}
	return all
}

// hostile makes every call on a name, of claims that its key may have.
func hostile(t testing.TB, r *servers.RedisServer, e engine.Engine, name, key string, known []engine.ID) {
	t.Helper()
	redistest.Hostile(t, e, name, key, append(known, engine.NewID()), func(limit int32) engine.Request {
		q := exclusive(name)
		q.Permits, q.Limit = limit, limit
		q.WaitTTL = 10 * time.Minute
		return q
	}, engine.Max, 3)
	if do(t, r, "PING") != "PONG" {
		t.Error("the server is busy")
	}
}

// TestRandomDamage: bytes of a stored queue are changed, cut and put elsewhere, by a
// seed that is told. The name beside it is what it was.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	join(t, e, kind("beside", engine.Max, engine.Max))
	beside := do(t, r, "DUMP", e.key("beside"))
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	shapes := []map[string]string{}
	key := e.key("a")
	for _, of := range [][2]int32{{engine.Max, engine.Max}, {1, engine.Max}, {2, 3}} {
		do(t, r, "DEL", key)
		for range 4 {
			c := join(t, e, kind("a", of[0], of[1]))
			shapes = append(shapes, fields(t, r, key))
			if rnd.IntN(4) == 0 {
				leave(t, e, c)
				shapes = append(shapes, fields(t, r, key))
			}
		}
	}
	for n := range testutil.Sized(300, 60) {
		was := shapes[rnd.IntN(len(shapes))]
		do(t, r, "DEL", key)
		for id, text := range damaged(rnd, was) {
			do(t, r, "HSET", key, id, text)
		}
		before := fields(t, r, key)
		hostile(t, r, e, "a", key, ids(was))
		if t.Failed() {
			t.Fatalf("seed %d, damage %d: %q of %q", seed, n, before, was)
		}
	}
	if do(t, r, "DUMP", e.key("beside")) != beside {
		t.Error("another name was touched")
	}
}

// damaged is a queue with something wrong.
func damaged(rnd *rand.Rand, was map[string]string) map[string]string {
	now := map[string]string{}
	var names []string
	for id, text := range was {
		now[id] = text
		names = append(names, id)
	}
	for range 1 + rnd.IntN(3) {
		id := names[rnd.IntN(len(names))]
		b := []byte(now[id])
		switch at := rnd.IntN(len(b) + 1); rnd.IntN(6) {
		case 0:
			delete(now, id)
			continue
		case 1:
			b = b[:at]
		case 2: // one claim's ID anywhere, so that links form rings
			copy(b[at:], names[rnd.IntN(len(names))])
		case 3:
			for i := at; i < min(len(b), at+8); i++ {
				b[i] = 0xff
			}
		case 4:
			for i := at; i < min(len(b), at+8); i++ {
				b[i] = byte(rnd.Uint32())
			}
		default:
			copy(b, names[rnd.IntN(len(names))]) // its link to the next
		}
		now[id] = string(b)
	}
	return now
}

// FuzzParse: whatever is stored is a queue, or refused.
func FuzzParse(f *testing.F) {
	f.Add("m", "", "", "")
	f.Add("m", "E\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02", "", "")
	f.Add("m", "S"+strings.Repeat("\x01", 70), strings.Repeat("i", 16), strings.Repeat("\x02", 80))
	f.Add("m", "Q"+strings.Repeat("\x00", 105), strings.Repeat("i", 16), strings.Repeat("\xff", 62))
	f.Add("m", "F"+strings.Repeat("\xff", 105), strings.Repeat("i", 16), strings.Repeat("\x00", 62))
	f.Fuzz(func(t *testing.T, a, x, b, y string) {
		if l, err := parseQueue(map[string]string{a: x, b: y}); err == nil {
			l.View(time.Hour, "a")
		}
		decode(x)
		(&Engine{prefix: "leasehold:"}).notification(x)
	})
}
