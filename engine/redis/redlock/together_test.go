package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// scriptsRun is how many scripts a server has carried out.
func scriptsRun(t *testing.T, r *servers.RedisServer) (n int) {
	t.Helper()
	said, err := r.Info("cmdstat_evalsha")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(said, "calls=%d,", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestManyCallersShareRequests: those that come while a master is busy go in one request,
// and each has its own answer.
func TestManyCallersShareRequests(t *testing.T) {
	t.Parallel()
	const callers = 30
	all := masters(t, 3, nil)
	e := open(t, urlOf("timeout=10s&restart-delay=off", addrs(all)...))
	leave(t, e, join(t, e, long("warm"))) // the scripts are known, and the clocks
	claims := make([]engine.Claim, callers)
	// at once has a call made for each claim while no master answers, and says how many
	// scripts each master needed for all, and how long a caller waited for that.
	atOnce := func(call func(i int)) (most int, waited time.Duration) {
		before := make([]int, len(all))
		for i, r := range all {
			before[i] = scriptsRun(t, r)
			do(t, r, "CLIENT", "PAUSE", "60000", "WRITE")
		}
		began := boottime.Now()
		var made sync.WaitGroup
		for i := range callers {
			made.Go(func() { call(i) })
		}
		for _, m := range e.masters {
			for m.sharing.Busy() < callers {
				time.Sleep(time.Millisecond)
			}
		}
		for _, r := range all {
			do(t, r, "CLIENT", "UNPAUSE")
		}
		waited = boottime.Now() - began
		made.Wait()
		for _, m := range e.masters {
			for m.sharing.Busy() > 0 { // a majority has answered, and this one not yet
				time.Sleep(time.Millisecond)
			}
		}
		for i, r := range all {
			most = max(most, scriptsRun(t, r)-before[i])
		}
		return most, waited
	}
	failed := make([]error, callers)
	var joins int
	for range 20 {
		var waited time.Duration
		joins, waited = atOnce(func(i int) {
			claims[i], failed[i] = e.Join(within(t), long(fmt.Sprint("n", i)))
		})
		if waited < near/2 || errors.Join(failed...) != nil {
			break
		}
		// The masters may have found the proposals too old, and each claim was stamped by
		// a script of its own.
		for _, c := range claims {
			leave(t, e, c)
		}
		settled(t, e)
	}
	seen := map[engine.ID]bool{}
	for i, c := range claims {
		if failed[i] != nil || c.State != engine.Held || c.Name != fmt.Sprint("n", i) || c.Ticket == 0 || seen[c.ID] {
			t.Errorf("claim %d: %+v, %v", i, c, failed[i])
		}
		seen[c.ID] = true
	}
	leaves, _ := atOnce(func(i int) {
		var gone []engine.Claim
		if gone, failed[i] = e.Leave(within(t), claims[i:i+1]); failed[i] == nil && gone[0].State != engine.Held {
			failed[i] = fmt.Errorf("found %+v", gone[0])
		}
	})
	for i, err := range failed {
		if err != nil {
			t.Errorf("leave %d: %v", i, err)
		}
	}
	t.Logf("%d Joins took %d scripts of a master, and as many Leaves %d", callers, joins, leaves)
	// Before there were many, some went alone.
	if most := many + 2; joins > most || leaves > most {
		t.Errorf("%d Joins took %d scripts of a master, and as many Leaves %d: want %d at most", callers, joins, leaves, most)
	}
}

// TestOneThatFailsHidesNoOther: in one request each is answered as if it were alone, and
// what fails, or is for another run of the master, is left to be asked for again.
func TestOneThatFailsHidesNoOther(t *testing.T) {
	t.Parallel()
	r := masters(t, 3, nil)
	e := open(t, urlOf("timeout=2s&max-ttl=1s", addrs(r)...))
	voting(t, e)
	m := e.masters[0]
	run, err := m.client.Run(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	do(t, r[0], "LPUSH", "list", "x")
	do(t, r[0], "SET", e.keys("beside")[1], "somebody's")
	call := func(s *redisconn.Script, run, name string, id engine.ID) sharedCall {
		args := []string{id.Secret(), "", e.channel, name}
		if s == e.scripts.join {
			args = []string{id.Secret(), "1000", "", "", "1", "0", "", "0", "0"}
		}
		return sharedCall{m.client, s, run, redisconn.Call{Keys: e.keys(name), Args: args}}
	}
	id := engine.NewID()
	answers := m.sharing.Send([]sharedCall{
		call(e.scripts.join, run, "a", id),
		call(e.scripts.join, run, "list", id),
		call(e.scripts.join, run, "beside", id),
		call(e.scripts.join, strings.Repeat("0", 40), "other run", id),
		call(e.scripts.join, run, "b", id),
		call(e.scripts.leave, "", "a", id),
		call(e.scripts.leave, "", "nobody's", id),
	})
	for i, want := range []engine.State{engine.Held, 0, 0, 0, engine.Held, engine.Held, engine.Gone} {
		v, err := answers[i].AsIntSlice()
		if again := want == 0; answers[i].again != again || !again && (err != nil || engine.State(v[0]) != want) {
			t.Errorf("call %d: again %v, %v, %v: want state %v", i, answers[i].again, v, err, want)
		}
	}
	if n := do(t, r[0], "EXISTS", "other run", "a"); n != int64(0) {
		t.Error("a master has taken a lock for another run, or kept one that was left")
	}
}

// TestTheShortWayIsTheLongOne compares what scripts answer and store with what they do
// without the short way for a lock that nobody else wants.
func TestTheShortWayIsTheLongOne(t *testing.T) {
	t.Parallel()
	a := oneMaster(t)
	s := newScripts(false, Redsync)
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
		"short:": {"join": timed(s.join.Text()), "leave": timed(s.leave.Text())},
		"long:":  {"join": cut(s.join, stringJoinLua), "leave": cut(s.leave, stringLeaveLua)},
	}
	digest := regexp.MustCompile(`[0-9a-f]{40}.*`)
	client := a.e.masters[0].client
	for seed := range uint64(testutil.Sized(10, 1)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		do(t, a.r, "FLUSHALL")
		ids := []engine.ID{engine.NewID(), engine.NewID(), engine.NewID()}
		now := time.Now().Unix()
		for step := range 100 {
			now += int64(rng.IntN(3) - 1)
			do(t, a.r, "SET", "sec", fmt.Sprint(now))
			id, proposal := ids[rng.IntN(len(ids))], uint64(now*1e6+rng.Int64N(600_000)-300_000)
			which, args := "join", []string{id.Secret(), parts.Millis(time.Minute), "owner", "", decimal(uint64(step)), decimal(proposal), "chan", "1", "0"}
			switch rng.IntN(8) {
			case 0, 1, 2:
				which, args = "leave", []string{id.Secret(), "", "chan", "name"}
			case 3:
				which, args = "leave", []string{id.Secret(), decimal(uint64(step - rng.IntN(2))), "", "name"}
			case 4:
				args[6] = ""
			case 5:
				args[3] = ids[rng.IntN(len(ids))].Secret()
			case 6: // what an operator or an eviction may do
				for way := range ways {
					key := a.e.keys(way)
					switch step % 5 {
					case 0:
						do(t, a.r, "DEL", key[1])
					case 1:
						do(t, a.r, "SET", key[1], "L1 is too short")
					case 2:
						do(t, a.r, "DEL", key[0])
					case 3:
						if do(t, a.r, "STRLEN", key[1]) != int64(0) {
							do(t, a.r, "SETRANGE", key[1], "66", id.Secret())
						}
					default:
						do(t, a.r, "DEL", key[0], key[1], key[2])
						do(t, a.r, "RPUSH", key[0], "somebody's")
					}
				}
			}
			got := map[string]any{}
			for way, scripts := range ways {
				key := a.e.keys(way)
				answer := client.Call(within(t), scripts[which], redisconn.Call{Keys: key, Args: args})
				said, err := answer.AsIntSlice()
				if len(said) == 6 && said[0] == int64(engine.Waiting) || len(said) == 6 && said[3] > 0 {
					said[3] = 0 // the server's own clock goes on
				}
				dump := []any{said, ""}
				if err != nil {
					dump[1] = digest.ReplaceAllString(err.Error(), "")
				}
				for _, k := range key[:2] {
					v, _ := client.Ask(within(t), "GET", k).ToString()
					left, _ := client.Ask(within(t), "PTTL", k).AsInt64()
					dump = append(dump, v, (left+5000)/10_000) // what is left goes on running
				}
				waiting, _ := client.Ask(within(t), "ZRANGE", key[2], "0", "-1").AsStrSlice()
				got[way] = append(dump, waiting)
			}
			if !reflect.DeepEqual(got["short:"], got["long:"]) {
				t.Fatalf("seed %d, step %d, %s %q:\nshort %q\nlong  %q", seed, step, which, args, got["short:"], got["long:"])
			}
		}
	}
}
