package redlock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/lab/servers"
)

// packed is what is beside a lock, with any numbers.
func packed(ticket, stamp, try, asked uint64, id, revoked, owner string) string {
	b := []byte("L1")
	for _, n := range []uint64{ticket, stamp, try, asked} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return fmt.Sprintf("%s%-32.32s%-32.32s%s", b, id, revoked, owner)
}

// hostile are commands that put somebody's data at a key.
func hostile(key string, binaries []string) (all [][]string) {
	for _, s := range binaries {
		all = append(all, []string{"SET", key, s}, []string{"SET", key, s, "PX", "9223372036854"})
	}
	return append(all,
		[]string{"HSET", key, "m", ""}, []string{"RPUSH", key, ""}, []string{"SADD", key, ""}, []string{"XADD", key, "1-1", "f", ""},
		[]string{"ZADD", key, "nan", ""}, []string{"ZADD", key, "-inf", ""}, []string{"ZADD", key, "inf", "\x00\xff"},
		[]string{"ZADD", key, "0", strings.Repeat("0", 32)}, []string{"ZADD", key, "0", strings.Repeat("z", 32) + side + "@"},
		[]string{"PFADD", key, "x"}, []string{"SETBIT", key, "80000", "1"},
	)
}

// binaries are strings that no script of ours writes at a lock or beside it, and some
// that look as if one had.
func binaries(id string) []string {
	const big = math.MaxUint64
	all := []string{
		"", "L1", "\x00", strings.Repeat("\xff", 97), strings.Repeat("\xff", 98), "L1" + strings.Repeat("\xff", 96), "L1" + strings.Repeat("\x00", 96),
		"L1" + strings.Repeat("\x00", 95), "L2" + strings.Repeat("\x00", 96), strings.Repeat("L1", 1<<16), id, id + "x", "-1", "nan", "9007199254740993",
		packed(big, 0, 0, 0, id, "", ""), packed(5, big, 0, 0, id, "", ""), packed(5, 6, 0, 0, id, "", ""), packed(5, 5, big, 0, id, "", ""),
		packed(5, 5, 0, big, id, "", ""), packed(5, 5, 0, 1<<53, id, "", ""), packed(engine.MaxTicket-1, engine.MaxTicket-1, 1<<53-1, 86_400_000, id, "", ""),
		packed(engine.MaxTicket-1, 0, 0, 0, "", "", ""), packed(5, 5, 1, 1000, id, id, "\x1b[2J\x00"), packed(5, 5, 1, 1000, id, "", strings.Repeat("\xff", 1<<16)),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, 90+random.IntN(20))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		copy(b, "L1")
		all = append(all, string(b))
	}
	return all
}

// everything makes every call about a name, and returns their errors. None may hang.
func everything(t *testing.T, e *Engine, name string, id engine.ID) (errs map[string]error, joined engine.Claim) {
	t.Helper()
	errs = map[string]error{}
	r := engine.Request{Name: name, ID: id, Permits: engine.Max, Limit: engine.Max, WaitTTL: 3 * time.Second}
	joined, errs["Join"] = e.Join(within(t), r)
	_, errs["Renew"] = e.Renew(within(t), []engine.Renewal{{Name: name, ID: id, Want: time.Second}})
	_, errs["Line"] = e.Queue(within(t), name)
	for l, err := range e.Queues(within(t), "") {
		errs["Lines"] = errors.Join(errs["Lines"], err)
		for _, c := range l.Claims {
			_ = c.Owner.Text()
		}
	}
	errs["Evict"] = e.Revoke(within(t), name, 5, false)
	_, errs["Leave"] = e.Leave(within(t), []engine.Claim{{Name: name, ID: id}})
	return errs, joined
}

// blames reports whether err names a master. A call that a majority has answered names
// none of the others.
func blames(err error) func(*servers.RedisServer) bool {
	return func(r *servers.RedisServer) bool { return strings.Contains(err.Error(), r.Addr) }
}

// TestHostileData: whatever is at the keys of a name, on all masters or on one, every
// call answers, blames no other key, and the other names go on. With one master that
// is damaged the name goes on as well.
func TestHostileData(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	other := join(t, e, long("other"))
	for round := range 4 {
		id := engine.NewID()
		keys, which := e.keys("a"), min(round, 2)
		held := round == 3 // and beside the lock
		if held {
			which = 1
		}
		for i, put := range hostile(keys[which], binaries(id.Secret())) {
			if testing.Short() && i%8 != 2*round {
				continue // others in each round
			}
			for _, damaged := range []int{1, 3} {
				settled(t, e) // first: what is under way writes to these keys
				for _, r := range all {
					do(t, r, "DEL", keys[0], keys[1], keys[2])
				}
				for _, r := range all[:damaged] {
					if held {
						do(t, r, "SET", keys[0], id.Secret(), "PX", "60000")
					}
					if _, err := r.Do(put...); err != nil && !strings.Contains(err.Error(), "not a valid float") {
						t.Fatal(err)
					}
				}
				errs, c := everything(t, e, "a", id)
				if damaged == 1 && errs["Join"] != nil {
					t.Errorf("%.60q on one master: Join: %v", put, errs["Join"])
				}
				if damaged == 1 && which > 0 && c.State != engine.Held {
					t.Errorf("%.60q on one master: %+v", put, c)
				}
				for call, err := range errs {
					switch {
					case err == nil, errors.Is(err, engine.ErrNoClaim):
					case !strings.Contains(err.Error(), fmt.Sprintf("%q", keys[which])) || !slices.ContainsFunc(all[:damaged], blames(err)):
						t.Errorf("%.60q on %d: %s blames another key or no master: %v", put, damaged, call, err)
					}
				}
				// In time: all of them may take longer than its TTL.
				if got := renew(t, e, other, time.Minute); got.State != engine.Held || got.Ticket != other.Ticket {
					t.Fatalf("another name: %+v", got)
				}
			}
		}
	}
	if got := renew(t, e, other, time.Second); got.State != engine.Held || got.Ticket != other.Ticket {
		t.Errorf("another name: %+v", got)
	}
}

// TestAnEmptyValueIsAHold: of another program, which need not give its lock a value. A name
// that was held before has a script of its own to begin with, string_join.lua.
func TestAnEmptyValueIsAHold(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	leave(t, e, join(t, e, long("held before")))
	settled(t, e)
	for _, name := range []string{"held before", "never held"} {
		for _, r := range all {
			do(t, r, "SET", name, "")
		}
		if l, err := e.Queue(within(t), name); err != nil || len(l.Claims) != 1 {
			t.Errorf("%s: it is shown as %+v %v", name, l, err)
		}
		if c := join(t, e, long(name)); c.State != engine.Waiting {
			t.Errorf("%s: beside another program's hold: %+v", name, c)
		}
		settled(t, e)
		for _, r := range all {
			if v := valueOf(t, r, name); v != "" {
				t.Errorf("%s: the other program's lock is %q by now", name, v)
			}
		}
	}
}

// TestHostileAnswers: a server that says what no script of ours says is not believed, and
// nothing panics.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	for _, says := range []string{
		"{}", "''", "nil", "1", "-1", "{1}", "{{}}", "{1,{2}}", "{'x',1,1,1,1}", "{9,9,9,9,9}", "{-1,-1,-1,-1,-1}", "{2,-1,-1,-1,-1}",
		"{2,1/0,1/0,1/0,1/0}", "{1,1,0,9223372036854775000,1}", "{3,0,1,0}", "{2,1,1}", "{2,2,2,2}", "{1,2,3,4,5,6}", "{3,1}", "{9,9}",
		"{'v',9223372036854775000,'18446744073709551615','',1}", "{'v',-1,'x','',1}", "{'v','',5,'o',0}", "{'',1,5,'o',0}", "redis.error_reply('FOREIGN 99')",
		"redis.error_reply('FOREIGN x')", "redis.error_reply('FOREIGN 0')", "redis.error_reply('FOREIGN -1')", "redis.error_reply('')", "redis.status_reply('')",
	} {
		s := redisconn.NewScript("return " + says)
		e := open(t, urlOf(easy, addrs(all)...)) // its own: calls of the one before may be under way yet
		e.scripts = scripts{join: s, stamp: s, renew: s, retake: s, leave: s, revoke: s, read: s}
		everything(t, e, "a", engine.NewID())
		settled(t, e)
	}
	for _, m := range []string{"", "x", strings.Repeat("z", 33), strings.Repeat("0", 32), strings.Repeat("\xff", 1<<16)} {
		if c, ok := notification(m); ok {
			t.Errorf("%.40q is a notification to %+v", m, c)
		}
	}
	if _, ok := notification(engine.NewID().Secret() + "a"); !ok {
		t.Error("void: no notification is one")
	}
}

// TestALifetimeOfThousandsOfYears is one, and not none.
func TestALifetimeOfThousandsOfYears(t *testing.T) {
	for ms, want := range map[int64]bool{math.MaxInt64: true, 9_223_372_036_855: true, 0: true, -1: false, -2: false, math.MinInt64: false} {
		if got := lifetime(ms); (got >= 0) != want {
			t.Errorf("%d ms are %v", ms, got)
		}
	}
}
