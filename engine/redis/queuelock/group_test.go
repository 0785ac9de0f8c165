package queuelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/internal/queuetest"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/lab/servers"
)

// grouping is an engine that sends every Join and Leave in a group, be it of one.
func grouping(t testing.TB, addr string) *Engine {
	t.Helper()
	e := open(t, "redis://"+addr)
	e.groups.Many = 1
	return e
}

// inGroups is how many calls wait in groups, or for one.
func inGroups(e *Engine) int { return e.groups.Busy() }

func long(name string) engine.Request {
	r := exclusive(name)
	r.WaitTTL = time.Minute
	return r
}

// twins are two engines with the same clock, channel and scripts, under two
// prefixes of one Redis. What is done to one in groups is done to the other one
// at a time.
type twins struct {
	*queuetest.Run
	client        rueidis.Client
	rng           *rand.Rand
	group, single *Engine
}

// digest is in errors of scripts, and differs.
var digest = regexp.MustCompile(`[0-9a-f]{40}`)

func (w *twins) raw(e *Engine, s *redisconn.Script, c redisconn.Call) any {
	w.Helper()
	v, err := e.wire.Call(w.Context(), s, c).ToAny()
	if re, ok := rueidis.IsRedisErr(err); ok {
		return digest.ReplaceAllString(re.Error(), "")
	} else if err != nil {
		w.Fatalf("%v", err)
	}
	return v
}

// state is all that one of them has in Redis, with what it would have published.
func (w *twins) state(e *Engine, names []string) map[string]any {
	out := map[string]any{}
	for _, n := range names {
		v, err := command(w, w.client, "HGETALL", e.key(n)).AsStrMap()
		if err != nil {
			w.Fatalf("%v", err)
		}
		expires, _ := command(w, w.client, "PEXPIRETIME", e.key(n)).AsInt64()
		out[n] = []any{v, expires}
	}
	var notifications []string
	all, _ := command(w, w.client, "LRANGE", "notes", "0", "-1").AsStrSlice()
	for _, n := range all {
		notifications = append(notifications, strings.ReplaceAll(n, e.prefix, ""))
	}
	out["notes"] = notifications
	command(w, w.client, "DEL", "notes")
	return out
}

// TestGroupDoesWhatSingleCallsDo compares every reply, every stored byte, expiry
// and notification. Where the group does not answer, it must have done nothing.
func TestGroupDoesWhatSingleCallsDo(t *testing.T) {
	r := redis(t, nil)
	client := connect(t, r.Addr)
	seeds := testutil.Sized(20, 2)
	answered, passed := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := &twins{Run: &queuetest.Run{T: t, Now: tomorrow()}, client: client, rng: rand.New(rand.NewPCG(uint64(seed), 7))}
			command(t, client, "FLUSHALL")
			w.group, w.single = bare(client, "group:", "client"), bare(client, "single:", "client")
			w.group.scripts.group = redisconn.NewScript(strings.ReplaceAll(w.group.scripts.group.Text(), "redis.call('TIME')", "{redis.call('GET', 'sec'), redis.call('GET', 'usec')}"))
			a, p := w.run()
			answered, passed = answered+a, passed+p
		})
	}
	t.Logf("groups answered %d calls and passed on %d", answered, passed)
	if answered < 40*seeds || passed < 40*seeds {
		t.Errorf("groups answered %d calls and passed on %d: that compares too little", answered, passed)
	}
}

func (w *twins) run() (answered, passed int) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "strange", "empty"}
	// Hashes that are not queues, or look like the beginning of one.
	strange := []string{"Snow", "E", "S" + strings.Repeat("x", 57), "E" + strings.Repeat("x", 17), ""}[w.rng.IntN(5)]
	for _, e := range []*Engine{w.group, w.single} {
		command(w, w.client, "HSET", e.key("strange"), "m", strange)
		command(w, w.client, "HSET", e.key("empty"), "f", "v")
	}
	var ids []engine.ID
	standing := map[string][]engine.ID{} // if nothing expired
	type op struct {
		s func(*Engine) *redisconn.Script
		c func(*Engine) redisconn.Call
	}
	joins := func(e *Engine) *redisconn.Script { return e.scripts.join }
	leaves := func(e *Engine) *redisconn.Script { return e.scripts.leave }
	anyID := func() engine.ID {
		if len(ids) == 0 || w.rng.IntN(10) == 0 {
			return engine.NewID()
		}
		return ids[max(0, len(ids)-1-w.rng.IntN(8))]
	}
	anyOp := func() op {
		name := names[w.rng.IntN(len(names))]
		there := standing[name]
		if len(there) > 0 && w.rng.IntN(8) > 0 || w.rng.IntN(8) == 0 {
			id := anyID()
			if n := len(there); n > 0 && w.rng.IntN(8) > 0 {
				id, standing[name] = there[n-1], there[:n-1]
			}
			w.Did("%x leaves %s", id[:2], name)
			return op{leaves, func(e *Engine) redisconn.Call { return e.leaving(&engine.Claim{Name: name, ID: id}) }}
		}
		kind := [][2]int32{{engine.Max, engine.Max}, {engine.Max, engine.Max}, {1, engine.Max}, {2, 3}}[w.rng.IntN(4)]
		q := engine.Request{Name: name, ID: engine.NewID(), Permits: kind[0], Limit: kind[1], Detached: w.rng.IntN(4) == 0,
			WaitTTL: []time.Duration{100 * time.Millisecond, 3 * time.Second, time.Minute, 3 * time.Hour}[w.rng.IntN(4)]}
		if w.rng.IntN(8) == 0 {
			q.ID = anyID()
		}
		ids, standing[name] = append(ids, q.ID), append(there, q.ID)
		w.Did("%x joins %s %+v", q.ID[:2], name, q)
		return op{joins, func(e *Engine) redisconn.Call { return e.joining(&q) }}
	}
	for range 40 {
		if w.rng.IntN(2) == 0 {
			w.Now += []time.Duration{time.Microsecond, 50 * time.Millisecond, 5 * time.Second, 40 * time.Minute, -200 * time.Millisecond, 0}[w.rng.IntN(6)]
			w.Did("clock")
		}
		setClock(w, w.client, w.Now)

		ops := make([]op, 1+w.rng.IntN(12))
		var calls []groupable
		for i := range ops {
			ops[i] = anyOp()
			calls = append(calls, groupable{Call: ops[i].c(w.group)})
		}
		replies := w.group.together(calls)
		ofGroup := w.state(w.group, names)
		var rest []op
		for i, r := range replies {
			if r.again {
				rest = append(rest, ops[i])
				continue
			}
			answered++
			got, err := r.ToAny()
			if want := w.raw(w.single, ops[i].s(w.single), ops[i].c(w.single)); err != nil || !reflect.DeepEqual(got, want) {
				w.Fatalf("reply %d:\n got %q %v\nwant %q", i, got, err, want)
			}
		}
		if want := w.state(w.single, names); !reflect.DeepEqual(ofGroup, want) {
			w.Fatalf("after a group of %d:\n got %q\nwant %q", len(ops), ofGroup, want)
		}
		// What the group passed on goes the same way on both sides.
		for _, e := range []*Engine{w.group, w.single} {
			var replies []any
			for _, o := range rest {
				replies = append(replies, w.raw(e, o.s(e), o.c(e)))
			}
			state := w.state(e, names)
			state["replies"] = replies
			if e == w.group {
				ofGroup = state
			} else if !reflect.DeepEqual(ofGroup, state) {
				w.Fatalf("afterwards:\n got %q\nwant %q", ofGroup, state)
			}
		}
		passed += len(rest)
	}
	return answered, passed
}

// TestGroupGivesEachItsOwnAnswer crowds own and shared names.
func TestGroupGivesEachItsOwnAnswer(t *testing.T) {
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := grouping(t, p.Addr)
	p.Forget()
	rounds := testutil.Sized(25, 6)
	var holders [4]atomic.Int32
	var mu sync.Mutex
	seen := map[string]map[uint64]bool{}
	var calls atomic.Int64
	atOnce(64, func(i int) {
		last := map[string]uint64{}
		for n := range rounds {
			name, shared := "own "+itoa(i), -1
			if n%2 == 1 {
				shared = (i + n) % 4
				name = "shared " + itoa(shared)
			}
			c, err := e.Join(within(t), long(name))
			calls.Add(2)
			if err != nil || c.Ticket <= last[name] || c.State != engine.Held && (shared < 0 || c.State != engine.Waiting) {
				t.Errorf("joined %s as %+v after ticket %d: %v", name, c, last[name], err)
				return
			}
			last[name] = c.Ticket
			mu.Lock()
			if seen[name] == nil {
				seen[name] = map[uint64]bool{}
			}
			if seen[name][c.Ticket] {
				t.Errorf("%s: ticket %d was given twice", name, c.Ticket)
			}
			seen[name][c.Ticket] = true
			mu.Unlock()
			if shared >= 0 && c.State == engine.Held {
				if n := holders[shared].Add(1); n != 1 {
					t.Errorf("%d hold %s", n, name)
				}
				holders[shared].Add(-1)
			}
			left, err := e.Leave(within(t), []engine.Claim{{Name: name, ID: c.ID}})
			if err != nil || left[0].Ticket != c.Ticket || left[0].State < c.State || left[0].State == engine.Gone {
				t.Errorf("joined %s as %+v and left as %+v: %v", name, c, left, err)
			}
		}
	})
	for name := range seen {
		if l, err := e.Queue(within(t), name); err != nil || len(l.Claims) > 0 {
			t.Errorf("afterwards in the queue at %s: %+v %v", name, l.Claims, err)
		}
	}
	if n := int64(p.Commands()["EVALSHA"]); n >= calls.Load() {
		t.Errorf("%d requests for %d calls", n, calls.Load())
	}
}

// TestGroupedCallEndsWithItsContext ends some of a group, and not the others.
func TestGroupedCallEndsWithItsContext(t *testing.T) {
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := grouping(t, p.Addr)
	for round := range 2 {
		p.BlackHole(true)
		type outcome struct {
			c   engine.Claim
			err error
		}
		const n = 24
		var results [n]chan outcome
		var qs [n]engine.Request
		ctx, cancel := context.WithCancel(t.Context())
		limited, cancel2 := context.WithTimeout(t.Context(), 2*time.Second) // much longer than it takes to send them
		ctxs := []context.Context{ctx, within(t), limited, context.Background()}
		wants := []error{context.Canceled, nil, context.DeadlineExceeded, nil}
		for i := range n {
			results[i] = make(chan outcome, 1)
			qs[i] = long(fmt.Sprint(round, " ", i))
			go func() {
				c, err := e.Join(ctxs[i%4], qs[i])
				results[i] <- outcome{c, err}
			}()
		}
		until(t, "they are not sent", func() bool { return inGroups(e) == n })
		cancel()
		get := func(i int) outcome {
			select {
			case o := <-results[i]:
				return o
			case <-time.After(20 * time.Second):
				t.Fatalf("%d hangs", i)
				return outcome{}
			}
		}
		for i := range n {
			if want := wants[i%4]; want != nil {
				if o := get(i); !errors.Is(o.err, want) {
					t.Errorf("%d: %+v %v, want %v", i, o.c, o.err, want)
				}
			}
		}
		cancel2()
		for i := range n {
			if wants[i%4] == nil && len(results[i]) > 0 {
				t.Errorf("%d ended with the others", i)
			}
		}
		p.BlackHole(false)
		for i := range n {
			if wants[i%4] == nil {
				if o := get(i); o.err == nil && o.c.State != engine.Held {
					t.Errorf("%d: %+v", i, o.c)
				} else if o.err != nil {
					t.Errorf("%d: the server is back, but %v", i, o.err)
				}
			}
		}
		// Answers that nobody waited for must not be somebody else's.
		atOnce(n, func(i int) {
			q := long("next " + itoa(i))
			c, err := e.Join(within(t), q)
			if err != nil || c.State != engine.Held {
				t.Errorf("Join: %+v %v", c, err)
				return
			}
			if left, err := e.Leave(within(t), []engine.Claim{c}); err != nil || left[0].Ticket != c.Ticket || left[0].State != engine.Held {
				t.Errorf("joined as %+v, left as %+v %v", c, left, err)
			}
		})
		for _, q := range qs {
			leave(t, e, engine.Claim{Name: q.Name, ID: q.ID})
		}
	}
}

func TestGroupSurvivesTheLossOfItsScript(t *testing.T) {
	r := redis(t, nil)
	e := grouping(t, r.Addr)
	stop := make(chan struct{})
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.Do("SCRIPT", "FLUSH")
			}
		}
	})
	atOnce(32, func(i int) {
		for range 20 {
			c, err := e.Join(within(t), long(itoa(i)))
			if err != nil || c.State != engine.Held {
				t.Errorf("Join: %+v %v", c, err)
				return
			}
			if left, err := e.Leave(within(t), []engine.Claim{c}); err != nil || left[0].State != engine.Held {
				t.Errorf("Leave: %+v %v", left, err)
				return
			}
		}
	})
	close(stop)
	flushing.Wait()
}

// TestForeignDataFailsOnlyWhoAskedForIt puts it beside others in one group.
func TestForeignDataFailsOnlyWhoAskedForIt(t *testing.T) {
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := grouping(t, p.Addr)
	do(t, r, "SET", e.key("0"), "v")
	do(t, r, "RPUSH", e.key("1"), "v")
	do(t, r, "HSET", e.key("2"), "f", "v")
	do(t, r, "HSET", e.key("3"), "m", "Snow")
	do(t, r, "HSET", e.key("4"), "m", "")
	p.Forget()
	for range 10 {
		atOnce(20, func(i int) {
			c, err := e.Join(within(t), long(itoa(i)))
			switch {
			case i < 5 && (err == nil || !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "not leasehold's") || !strings.Contains(err.Error(), e.key(itoa(i)))):
				t.Errorf("%d: %+v %v", i, c, err)
			case i >= 5 && (err != nil || c.State != engine.Held):
				t.Errorf("%d: %+v %v", i, c, err)
			}
			left, err := e.Leave(within(t), []engine.Claim{{Name: itoa(i), ID: c.ID}})
			if want := map[bool]engine.State{true: engine.Gone, false: engine.Held}[i < 5]; err != nil || left[0].State != want {
				t.Errorf("%d: left as %+v %v", i, left, err)
			}
		})
	}
	if n := p.Commands()["EVALSHA"]; n >= 10*(40+10) {
		t.Errorf("%d requests: nothing was grouped", n)
	}
	if v := do(t, r, "GET", e.key("0")); v != "v" {
		t.Errorf("it was changed to %v", v)
	}
}

func TestFullMemoryAndGroups(t *testing.T) {
	r := redis(t, nil)
	e := grouping(t, r.Addr)
	var cs [40]engine.Claim
	for i := range cs {
		cs[i] = join(t, e, long("held "+itoa(i)))
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	// Joins and Leaves in the same groups: a Leave that writes must not open the
	// door to a Join behind it.
	atOnce(2*len(cs), func(i int) {
		if i%2 == 0 {
			c, err := e.Join(within(t), long("new "+itoa(i)))
			if err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "full") {
				t.Errorf("Join: %+v %v", c, err)
			}
			return
		}
		c := cs[i/2]
		if left, err := e.Leave(within(t), []engine.Claim{c}); err != nil || left[0].State != engine.Held || left[0].Ticket != c.Ticket {
			t.Errorf("joined as %+v, left as %+v %v", c, left, err)
		}
	})
	do(t, r, "CONFIG", "SET", "maxmemory", "0")
	for i := range cs {
		if c := join(t, e, long("held "+itoa(i))); c.State != engine.Held || c.Ticket <= cs[i].Ticket {
			t.Errorf("afterwards %+v, before %+v", c, cs[i])
		}
	}
}

// TestGroupCutAnywhere cuts the connection under groups: whoever held must never
// hear that it was gone.
func TestGroupCutAnywhere(t *testing.T) {
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := grouping(t, p.Addr)
	lose := map[string]func(n int){
		"request": p.CutRequest,
		"reply":   p.CutReply,
		"answer":  func(int) { p.LoseReply("EVALSHA") },
	}
	for what, cut := range lose {
		t.Run(what, func(t *testing.T) {
			for n := 0; n < 700; n += 37 {
				const many = 6
				var qs [many]engine.Request
				var cs [many]engine.Claim
				for i := range qs {
					qs[i] = long(fmt.Sprint(what, n, " ", i))
				}
				cut(n)
				atOnce(many, func(i int) {
					c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, qs[i]) })
					if err != nil || c.State != engine.Held {
						t.Errorf("cut after %d bytes: %+v %v", n, c, err)
					}
					cs[i] = c
				})
				p.CutRequest(-1)
				p.CutReply(-1)
				for i, q := range qs {
					if l, err := e.Queue(within(t), q.Name); err == nil && (len(l.Claims) != 1 || l.Claims[0].Ticket != cs[i].Ticket) {
						t.Errorf("cut after %d bytes: joined as %+v, the queue is %+v", n, cs[i], l.Claims)
					}
				}
				cut(n)
				atOnce(many, func(i int) {
					left, err := e.Leave(within(t), []engine.Claim{{Name: qs[i].Name, ID: qs[i].ID}})
					if err == nil && left[0].State != engine.Held {
						t.Errorf("cut after %d bytes: left as %+v", n, left[0])
					}
				})
				p.CutRequest(-1)
				p.CutReply(-1)
				p.LoseReply()
				for _, q := range qs {
					e.Leave(within(t), []engine.Claim{{Name: q.Name, ID: q.ID}})
				}
			}
		})
	}
}

// engines are of a connection of their own, and of the caller's client.
var engines = map[string]func(t testing.TB, addr string) *Engine{
	"of Open": func(t testing.TB, addr string) *Engine { return open(t, "redis://"+addr) },
	"of New":  newEngine,
}

// TestCloseWhileGroupsHang finds a Close that waits for a silent server, and
// callers that it forgets.
func TestCloseWhileGroupsHang(t *testing.T) {
	r := redis(t, nil)
	for kind, open := range engines {
		t.Run(kind, func(t *testing.T) {
			p := servers.ProxyTo(t, r.Addr)
			e := open(t, p.Addr)
			e.groups.Many = 1
			p.BlackHole(true)
			defer p.BlackHole(false)
			const n = 20
			done := make(chan error, n)
			for i := range n {
				go func() {
					_, err := e.Join(context.Background(), long(itoa(i)))
					done <- err
				}()
			}
			until(t, "they are not sent", func() bool { return inGroups(e) == n })
			closed := make(chan error, 1)
			go func() { closed <- e.Close() }()
			ended(t, closed)
			for range n {
				if err := ended(t, done); err == nil {
					t.Error("Join had an answer")
				}
			}
			if _, err := e.Join(t.Context(), long("late")); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("Join of a closed engine: %v", err)
			}
		})
	}
}

// TestFewCallsAreNotGrouped: the detour costs them more than it saves.
func TestFewCallsAreNotGrouped(t *testing.T) {
	r := redis(t, nil)
	e := open(t, "redis://"+r.Addr)
	e.scripts.group = redisconn.NewScript("return redis.error_reply('a group')")
	for range 20 {
		leave(t, e, join(t, e, exclusive("a")))
	}
}

// TestRequestThatHangsHoldsNobodyUpWhoHasCompany: a connection may be dead while
// others are not.
func TestRequestThatHangsHoldsNobodyUpWhoHasCompany(t *testing.T) {
	r := redis(t, nil)
	h := &hanging{Client: connect(t, r.Addr), used: make(chan struct{})}
	e, err := New(t.Context(), h, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.groups.Many = 1
	h.armed.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	victim := make(chan error, 1)
	go func() {
		_, err := e.Join(ctx, long("victim"))
		victim <- err
	}()
	<-h.used
	atOnce(enough, func(i int) {
		if _, err := e.Join(within(t), long(itoa(i))); err != nil {
			t.Errorf("held up by a request that it is no part of: %v", err)
		}
	})
	cancel()
	if err := ended(t, victim); !errors.Is(err, context.Canceled) {
		t.Errorf("the victim: %v", err)
	}
}

// hanging is a client one of whose connections is dead: one call hangs.
type hanging struct {
	rueidis.Client
	armed atomic.Bool
	used  chan struct{}
}

func (h *hanging) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if h.armed.CompareAndSwap(true, false) {
		close(h.used)
		<-ctx.Done()
		return rueidis.NewErrorResult(ctx.Err())
	}
	return h.Client.Do(ctx, cmd)
}

// TestWhatFailsForOneIsNotHiddenFromTheOthers: a Leave that was carried out must
// not be asked for again, and then be told that there was nothing to leave.
func TestWhatFailsForOneIsNotHiddenFromTheOthers(t *testing.T) {
	r := redis(t, nil)
	full := open(t, "redis://"+r.Addr)
	leave(t, full, join(t, full, long("a"))) // its key stands, with an expiry far ahead
	if out, err := r.Do("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-pexpireat"); err != nil {
		t.Fatal(out, err)
	}
	e := open(t, "redis://u:p@"+r.Addr)
	held, fresh := join(t, e, long("a")), long("fresh")
	replies := e.together([]groupable{{Call: e.leaving(&held)}, {Call: e.joining(&fresh)}})
	if left := replies[0]; left.again || left.Error() != nil {
		t.Errorf("the Leave: %+v", left)
	}
	if joined := replies[1]; !joined.again {
		t.Errorf("the Join, which may not set an expiry: %+v", joined)
	}
}
