package redlock

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// passes has a lock go from one engine to another.
func passes(t *testing.T, a, b *Engine) {
	t.Helper()
	received := redistest.Watch(t, b)
	first := join(t, a, long("a"))
	second := join(t, b, long("a"))
	if first.State != engine.Held || second.State != engine.Waiting {
		t.Fatalf("%+v beside %+v", second, first)
	}
	if s := leave(t, a, first); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	redistest.Expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID })
	if c := renew(t, b, second, time.Second); c.State != engine.Held || c.Ticket <= first.Ticket {
		t.Errorf("the next is %+v after %d", c, first.Ticket)
	}
}

// TestTLS: the certificate of every master is verified.
func TestTLS(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, &servers.RedisOptions{TLS: true, Password: "secret"})
	var at []string
	var trusted []byte
	for _, r := range all {
		pem, err := os.ReadFile(r.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		at, trusted = append(at, r.TLSAddr), append(trusted, pem...)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	url := func(ca string) string {
		return "redlocks://:secret@" + strings.Join(at, ",") + "?" + easy + "&ca=" + ca
	}
	passes(t, open(t, url(ca)), open(t, url(ca)))
	if e, err := Open(within(t), url(all[0].CAFile)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("two masters that nobody vouches for: %v %v", e, err)
	}
}

// TestACallersOwnClients: they are used, and left open at Close.
func TestACallersOwnClients(t *testing.T) {
	t.Parallel()
	var engines [2]*Engine
	all := masters(t, 3, nil)
	for i := range engines {
		var clients []rueidis.Client
		for _, r := range all {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr}, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			clients = append(clients, c)
		}
		e, err := New(within(t), clients, &Options{Prefix: "p:", NoRestartDelay: true, Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		engines[i] = e
		t.Cleanup(func() {
			e.Close()
			for _, c := range clients {
				if err := c.Do(context.Background(), c.B().Ping().Build()).Error(); err != nil { // the test's own context has ended
					t.Errorf("a caller's client after Close: %v", err)
				}
			}
		})
	}
	passes(t, engines[0], engines[1])
	if err := engines[0].Close(); err != nil {
		t.Error(err)
	}
	if v := valueOf(t, all[0], "a"); v != nil {
		t.Errorf("a lock without the prefix: %v", v)
	}
	if _, err := New(within(t), nil, nil); err == nil || !strings.Contains(err.Error(), "outside 3 to 15") {
		t.Errorf("no clients: %v", err)
	}
}

// TestForeignDataBesideALock: a master where it is has no say, and where all have it
// the error names the key. None is touched.
func TestForeignDataBesideALock(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	for name, c := range map[string]struct {
		key  int // of e.keys
		data []string
	}{
		"a lock that is a hash":     {0, []string{"HSET", "", "f", "v"}},
		"a string beside":           {1, []string{"SET", "", "theirs"}},
		"a long string beside":      {1, []string{"SET", "", strings.Repeat("9", 200)}},
		"a number beside":           {1, []string{"SET", "", "9007199254740991"}},
		"a hash beside":             {1, []string{"HSET", "", "f", "v"}},
		"a counter beyond all":      {1, []string{"SET", "", record(engine.MaxTicket)}},
		"a counter beyond a double": {1, []string{"SET", "", record(1<<64 - 1)}},
	} {
		key := e.keys(name)[c.key]
		c.data[1] = key
		var before []any
		for i, r := range all {
			if i == 1 { // one master does not decide
				held := join(t, e, long(name))
				if held.State != engine.Held {
					t.Errorf("%s on one master: %+v", name, held)
				}
				if got := renew(t, e, held, time.Second); got.State != engine.Held {
					t.Errorf("%s on one master: renewed as %+v", name, got)
				}
				if s := leave(t, e, held); s != engine.Held {
					t.Errorf("%s on one master: left as %v", name, s)
				}
				for _, r := range all[1:] {
					until(t, "it stands", func() bool { return valueOf(t, r, name) == nil })
					do(t, r, "DEL", e.keys(name)[1])
				}
			}
			do(t, r, c.data...)
			before = append(before, do(t, r, "DUMP", key))
		}
		_, err := e.Join(within(t), long(name))
		if err == nil || !strings.Contains(err.Error(), "not leasehold's") || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: Join: %v", name, err)
		}
		for i, r := range all {
			if do(t, r, "DUMP", key) != before[i] || do(t, r, "TTL", key) != int64(-1) {
				t.Errorf("%s: it was changed", name)
			}
			if c.key > 0 && valueOf(t, r, name) != nil {
				t.Errorf("%s: the lock was taken", name)
			}
		}
	}
}

// TestForeignDataWhereSomebodyWaits: a claim cannot be noted there, which is said, and
// a holder is not touched by it.
func TestForeignDataWhereSomebodyWaits(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	key := e.keys("a")[2]
	for _, r := range all {
		do(t, r, "HSET", key, "f", "v")
	}
	held := join(t, e, long("a"))
	if _, err := e.Join(within(t), long("a")); err == nil || !strings.Contains(err.Error(), "not leasehold's") || !strings.Contains(err.Error(), key) {
		t.Errorf("Join: %v", err)
	}
	if got := renew(t, e, held, time.Second); got.State != engine.Held {
		t.Errorf("renewed as %+v", got)
	}
	if s := leave(t, e, held); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	for _, r := range all {
		if v := do(t, r, "HGET", key, "f"); v != "v" {
			t.Errorf("it was changed: %v", v)
		}
	}
}

// TestManyLeasesAreFewRequests: 10,000 leases on three masters are renewed by a request
// for each 128 of them and master.
func TestManyLeasesAreFewRequests(t *testing.T) {
	t.Parallel()
	leases := testutil.Sized(10_000, 1500) // more than one batch
	var proxies []*servers.Proxy
	var at []string
	for _, r := range masters(t, 3, nil) {
		p := servers.ProxyTo(t, r.Addr)
		proxies, at = append(proxies, p), append(at, p.Addr)
	}
	e := open(t, urlOf("timeout=10s&max-ttl=10m&restart-delay=off", at...))
	names := make(chan string, leases)
	for i := range leases {
		names <- "lease " + decimal(uint64(i))
	}
	close(names)
	got := make(chan engine.Claim, leases)
	for range 64 {
		go func() {
			for name := range names {
				r := exclusive(name)
				r.WaitTTL = 10 * time.Minute // joining all of them takes a while
				c, err := e.Join(t.Context(), r)
				if err != nil {
					t.Errorf("Join: %v", err)
				}
				got <- c
			}
		}()
	}
	var rs []engine.Renewal
	for range leases {
		c := <-got
		rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: 10 * time.Minute})
	}
	until(t, "a try is under way", func() bool {
		e.late.mu.Lock()
		defer e.late.mu.Unlock()
		return len(e.late.m) == 0
	})
	for _, p := range proxies {
		p.Forget()
	}
	calls := 0
	for from := 0; from < leases; from += engine.MaxBatch {
		renewalInterval := rs[from:min(from+engine.MaxBatch, leases)]
		calls += (len(renewalInterval) + batch - 1) / batch
		cs, err := e.Renew(t.Context(), renewalInterval)
		if err != nil || len(cs) != len(renewalInterval) {
			t.Fatalf("Renew: %d of %d, %v", len(cs), len(renewalInterval), err)
		}
		for _, c := range cs {
			if c.State != engine.Held {
				t.Fatalf("renewed as %+v", c)
			}
		}
	}
	for _, p := range proxies {
		until(t, "a master is not asked", func() bool { return p.Commands()["EVALSHA"] >= calls })
		// At the first of a kind a master may have to be sent the script.
		if n := p.Commands()["EVALSHA"]; n > calls {
			t.Errorf("%d requests to a master for %d leases, want %d", n, leases, calls)
		}
	}
}

// TestTheMiddleClock: a few that are wrong have no say, and of two in the middle the
// earlier counts.
func TestTheMiddleClock(t *testing.T) {
	const hour = 3600 * 1000 * 1000 // in microseconds, as all of these
	for _, c := range []struct {
		clocks []time.Duration
		want   time.Duration // 0: nothing is learned
	}{
		{[]time.Duration{3, 1, 2}, 2},
		{[]time.Duration{1, 2, hour, hour + 1, 3}, 3},
		{[]time.Duration{1, 2, hour, hour}, 2},
		{[]time.Duration{hour, 1}, 0},
	} {
		var k clock
		var ballots []ballot
		for _, at := range c.clocks {
			ballots = append(ballots, ballot{sent: true, clock: at * time.Microsecond})
		}
		k.learn(ballots, 3)
		if got := k.ahead.Load(); got != int64(c.want) {
			t.Errorf("of %v the middle is %d, not %d", c.clocks, got, c.want)
		}
	}
}
