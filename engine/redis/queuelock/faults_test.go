package queuelock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

func TestScriptCacheLost(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := newEngine(t, r.Addr)
	var cs []engine.Claim
	for i := range 5 {
		cs = append(cs, join(t, e, exclusive(fmt.Sprint(i))))
	}
	do(t, r, "SCRIPT", "FLUSH")
	if got, err := e.Leave(within(t), cs[:4]); err != nil || len(got) != 4 {
		t.Errorf("Leave: %v %v", got, err)
	}
	do(t, r, "SCRIPT", "FLUSH")
	renew(t, e, cs[4], time.Second)
	do(t, r, "SCRIPT", "FLUSH")
	if c := join(t, e, exclusive("0")); c.State != engine.Held {
		t.Errorf("Join: %+v", c)
	}
	do(t, r, "SCRIPT", "FLUSH")
	if err := e.Revoke(within(t), "4", cs[4].Ticket, false); err != nil {
		t.Errorf("Revoke: %v", err)
	}
}

func TestTicketsRiseThoughMemoryIsLost(t *testing.T) {
	t.Parallel()
	r := redis(t, nil) // nothing on disk
	e := newEngine(t, r.Addr)
	last := join(t, e, exclusive("a")).Ticket
	for i, lose := range []func(){
		func() { do(t, r, "FLUSHALL") },
		func() {
			if err := r.Restart(false); err != nil {
				t.Fatal(err)
			}
		},
		func() { do(t, r, "DEL", e.key("a")) },
	} {
		lose()
		c := join(t, e, exclusive("a"))
		if c.State != engine.Held || c.Ticket <= last {
			t.Errorf("loss %d: %+v after ticket %d", i, c, last)
		}
		last = c.Ticket
	}
}

func TestKeysVanishWithTheirQueue(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := newEngine(t, r.Addr)
	c := join(t, e, exclusive("left"))
	leave(t, e, c)
	e.Join(within(t), exclusive("crashed"))
	for _, key := range do(t, r, "KEYS", "*").([]any) {
		ttl := do(t, r, "PTTL", key.(string)).(int64)
		if ttl <= int64(keep/2/time.Millisecond) || ttl > int64(24*time.Hour/time.Millisecond) {
			t.Errorf("%q goes in %d ms", key, ttl)
		}
	}
	if n := do(t, r, "HSTRLEN", e.key("left"), "m").(int64); n != 17 {
		t.Errorf("the memory of a ticket takes %d bytes", n)
	}
}

func TestFullMemoryStopsJoinsButNobodyWhoIsIn(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := newEngine(t, r.Addr)
	received := watch(t, e)
	alone, first := join(t, e, exclusive("alone")), join(t, e, exclusive("busy"))
	second, third := join(t, e, exclusive("busy")), join(t, e, exclusive("busy"))
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	if _, err := e.Join(within(t), exclusive("new")); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "full") {
		t.Errorf("Join: %v", err)
	}
	for _, c := range []engine.Claim{alone, first, second, third} {
		if got := renew(t, e, c, time.Minute); got.State != c.State || got.TTL < 50*time.Second {
			t.Errorf("renewed: %+v", got)
		}
	}
	if s := leave(t, e, first); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
	for _, c := range []engine.Claim{alone, second, third} {
		if s := leave(t, e, c); s != engine.Held {
			t.Errorf("left as %v", s)
		}
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "0")
	if c := join(t, e, exclusive("new")); c.State != engine.Held {
		t.Errorf("afterwards: %+v", c)
	}
}

func TestBusyServerIsNoAnswer(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := newEngine(t, r.Addr)
	held := join(t, e, long("a"))
	do(t, r, "CONFIG", "SET", "busy-reply-threshold", "10")
	busy := make(chan error, 1)
	other, err := servers.DialRedis(r.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		_, err := other.Do("EVAL", "while true do end", "0")
		busy <- err
	}()
	// BUSY is an error that says nothing was learned, as long as it lasts.
	var last error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, last = e.Join(ctx, exclusive("b"))
		cancel()
		if last != nil && strings.Contains(last.Error(), "BUSY") {
			break
		}
	}
	if last == nil || !strings.Contains(last.Error(), "BUSY") || errors.Is(last, engine.ErrRefused) {
		t.Errorf("Join: %v", last)
	}
	do(t, r, "SCRIPT", "KILL")
	<-busy
	if s := leave(t, e, held); s != engine.Held {
		t.Errorf("afterwards left as %v", s)
	}
}

func TestLoadingServerIsNoAnswer(t *testing.T) {
	t.Parallel()
	r := redis(t, &servers.RedisOptions{Args: []string{"--key-load-delay", "6000", "--loading-process-events-interval-bytes", "1024"}})
	e := newEngine(t, r.Addr)
	held := exclusive("a")
	held.WaitTTL = time.Minute
	c := join(t, e, held)
	do(t, r, "EVAL", "for i = 1, 500 do redis.call('SET', 'k' .. i, string.rep('x', 1000)) end", "0")
	do(t, r, "CONFIG", "SET", "rdbcompression", "no")
	do(t, r, "SAVE")
	restarted := make(chan error, 1)
	go func() { restarted <- r.Restart(false) }()
	defer func() {
		if err := <-restarted; err != nil {
			t.Error(err)
		}
	}()
	// Reset, refused, then LOADING, then the truth.
	seen := ""
	got, err := eventually(t, func(ctx context.Context) (engine.Claim, error) {
		cs, err := e.Renew(ctx, []engine.Renewal{{Name: "a", ID: c.ID, Want: time.Minute}})
		if err != nil {
			seen += err.Error() + "\n"
			return engine.Claim{}, err
		}
		return cs[0], nil
	})
	if err != nil || got.State != engine.Held {
		t.Errorf("after loading: %+v %v", got, err)
	}
	if !strings.Contains(seen, "LOADING") {
		t.Errorf("LOADING was not seen: %s", seen)
	}
}

func TestReplicaTakesNoWrites(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := newEngine(t, r.Addr)
	c := join(t, e, exclusive("a"))
	host, port, _ := strings.Cut(redis(t, nil).Addr, ":")
	do(t, r, "REPLICAOF", host, port)
	until(t, "it does not follow", func() bool { // until it does it may be loading, and say that
		status, err := r.Info("master_link_status")
		return err == nil && status == "up"
	})
	if _, err := e.Join(within(t), exclusive("b")); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("Join: %v", err)
	}
	if _, err := New(within(t), connect(t, r.Addr), nil); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("New on a replica: %v", err)
	}
	do(t, r, "REPLICAOF", "NO", "ONE")
	e.Leave(within(t), []engine.Claim{c})
	if c := join(t, e, exclusive("b")); c.State != engine.Held {
		t.Errorf("promoted again: %+v", c)
	}
}

// TestCutAnywhere cuts the connection after every number of bytes of a request
// and of its answer. Whatever arrived, the claim is there once, and its owner
// finds out by its ID.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := newEngine(t, p.Addr)
	name := 0
	for _, cut := range []func(int){p.CutRequest, p.CutReply} {
		for n := 0; n < 400; n += 7 {
			name++
			q := exclusive(fmt.Sprint(name))
			cut(n)
			c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, q) })
			if err != nil || c.State != engine.Held {
				t.Fatalf("cut after %d bytes: %+v %v", n, c, err)
			}
			l, err := e.Queue(within(t), q.Name)
			for err != nil {
				l, err = e.Queue(within(t), q.Name)
			}
			if len(l.Claims) != 1 || l.Claims[0].Ticket != c.Ticket {
				t.Fatalf("cut after %d bytes: the queue is %+v", n, l)
			}
			cut(n)
			cs, err := e.Leave(within(t), []engine.Claim{c})
			if err == nil && cs[0].State != engine.Held {
				// A claim that was held until now must never be reported gone:
				// either how it was found, or an error.
				t.Fatalf("cut after %d bytes: left as %v", n, cs[0].State)
			}
			cut(-1)
			if err != nil {
				e.Leave(within(t), []engine.Claim{c})
			}
		}
	}
	p.CutRequest(-1)
	p.CutReply(-1)
}

// TestASubscriptionThatIsDroppedIsOver: Watch is one subscription, and does not begin it
// again by itself.
func TestASubscriptionThatIsDroppedIsOver(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := newEngine(t, p.Addr)
	for _, drop := range []func(){p.Reset, func() { do(t, r, "CLIENT", "KILL", "TYPE", "pubsub") }} {
		began, over := make(chan engine.Claim, 10), make(chan error, 1)
		go func() { over <- e.Watch(t.Context(), func(c engine.Claim) { began <- c }) }()
		expect(t, began, func(c engine.Claim) bool { return c.Name == "" })
		drop()
		if err := ended(t, over); err == nil {
			t.Error("it is over, and nobody knows why")
		}
		if n := len(began); n > 0 {
			t.Errorf("it told of %d things more", n)
		}
	}
}

func TestSubscriptionDroppedBeginsAgain(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := newEngine(t, p.Addr)
	received := watch(t, e)
	for range 3 {
		p.Reset()
		expect(t, received, func(c engine.Claim) bool { return c.Name == "" })
	}
	do(t, r, "CLIENT", "KILL", "TYPE", "pubsub")
	expect(t, received, func(c engine.Claim) bool { return c.Name == "" })
	first, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, exclusive("a")) })
	if err != nil {
		t.Fatal(err)
	}
	second := join(t, e, exclusive("a"))
	leave(t, e, first)
	expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := newEngine(t, p.Addr)
	c := join(t, e, exclusive("a"))
	p.BlackHole(true)
	for what, call := range map[string]func(context.Context) error{
		"Join": func(ctx context.Context) error { _, err := e.Join(ctx, exclusive("b")); return err },
		"Renew": func(ctx context.Context) error {
			_, err := e.Renew(ctx, []engine.Renewal{{Name: "a", ID: c.ID, Want: time.Second}})
			return err
		},
		"Leave": func(ctx context.Context) error { _, err := e.Leave(ctx, []engine.Claim{c}); return err },
		"Line":  func(ctx context.Context) error { _, err := e.Queue(ctx, "a"); return err },
		"Evict": func(ctx context.Context) error { return e.Revoke(ctx, "a", 1, false) },
		"Watch": func(ctx context.Context) error { return e.Watch(ctx, func(engine.Claim) {}) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		start := time.Now()
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s took %v", what, d)
		}
		cancel()
	}
	start := time.Now()
	e.Close()
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("Close took %v", d)
	}
	p.BlackHole(false)
}

// TestRevokeWhoseAnswerWasLostDoesNotSayThatNobodyWasThere: it may have been this
// very call that ended the claim.
func TestRevokeWhoseAnswerWasLostDoesNotSayThatNobodyWasThere(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := newEngine(t, p.Addr)
	other := newEngine(t, r.Addr)
	c := join(t, other, long("a"))
	e.Revoke(within(t), "a", 1, true) // teaches Revoke
	p.LoseReply("EVALSHA")
	if err := e.Revoke(within(t), "a", c.Ticket, true); err == nil || errors.Is(err, engine.ErrNoClaim) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("Revoke: %v", err)
	}
	if l, err := other.Queue(within(t), "a"); err != nil || len(l.Claims) > 0 {
		t.Errorf("the queue: %+v %v", l, err)
	}
	if err := e.Revoke(within(t), "a", c.Ticket, true); !errors.Is(err, engine.ErrNoClaim) {
		t.Errorf("once more: %v", err)
	}
}
