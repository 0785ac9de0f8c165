package redlock

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	var ignored []goleak.Option
	for _, f := range redistest.Background {
		ignored = append(ignored, goleak.IgnoreAnyFunction(f))
	}
	goleak.VerifyTestMain(m, ignored...)
}

var (
	within                 = redistest.Within
	join, leave, renew, do = redistest.Join, redistest.Leave, redistest.Renew, redistest.Do
)

// exclusive is a request that masters grant whatever their longest TTL is, and long
// one for what must be held when the test looks.
func exclusive(name string) engine.Request {
	r := redistest.Exclusive(name)
	r.WaitTTL = 3 * time.Second
	return r
}

func long(name string) engine.Request {
	r := redistest.Exclusive(name)
	r.WaitTTL = time.Minute
	return r
}

// masters starts so many servers.
func masters(t testing.TB, n int, o *servers.RedisOptions) []*servers.RedisServer {
	t.Helper()
	all := make([]*servers.RedisServer, n)
	for i := range all {
		all[i] = servers.Redis(t, o)
	}
	return all
}

func addrs(all []*servers.RedisServer) []string {
	var list []string
	for _, r := range all {
		list = append(list, r.Addr)
	}
	return list
}

func urlOf(params string, addrs ...string) string {
	return "redlock://" + strings.Join(addrs, ",") + "?" + params
}

// easy are the parameters of tests that are not about restarts or slow masters, on
// a machine that is busy with others.
const easy = "timeout=10s&restart-delay=off"

// open waits until every master is there: Open itself waits for a majority, and for the
// rest only a moment.
func open(t testing.TB, url string) *Engine {
	t.Helper()
	e := openWithout(t, url)
	reached(t, e)
	return e
}

// openWithout is open where a master is away or busy.
func openWithout(t testing.TB, url string) *Engine {
	t.Helper()
	return redistest.Kit{Open: Open}.Opened(t, url).(*Engine)
}

// reached waits until every master is.
func reached(t testing.TB, e *Engine) {
	t.Helper()
	until(t, "a master is not reached", func() bool {
		return !slices.ContainsFunc(e.masters, func(m *master) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.client == nil
		})
	})
}

func teach(t testing.TB, all []*servers.RedisServer) {
	t.Helper()
	for _, l := range []Layout{Redsync, Redisson} {
		s := newScripts(true, l)
		for _, r := range all {
			for _, one := range []*redisconn.Script{s.join, s.stamp, s.renew, s.retake, s.leave, s.together, s.revoke, s.read} {
				do(t, r, "SCRIPT", "LOAD", one.Text())
			}
		}
	}
}

func TestConformance(t *testing.T) { conforms(t, "redlock", Redsync) }

func TestConformanceRedisson(t *testing.T) {
	redistest.AnotherForm(t)
	conforms(t, "redlock-redisson", Redisson)
}

// conforms runs the suite on five masters, with -short on three, that sync every write, with the
// delay after a restart in force: whoever kept everything votes at once.
func conforms(t *testing.T, name string, l Layout) {
	if testing.Short() {
		t.Parallel() // in full size five masters and their clients keep a small machine busy
	}
	all := masters(t, testutil.Sized(5, 3), &servers.RedisOptions{Durable: true})
	params := "layout=" + string(l) + "&timeout=10s" // the machine may be busy with others

	open(t, urlOf(params, addrs(all)...)).Close() // looks at each run
	restart := func(t testing.TB) {
		for _, r := range all {
			if err := r.Restart(false); err != nil {
				t.Fatal(err)
			}
		}
		teach(t, all)
	}
	restart(t)
	var mu sync.Mutex
	proxies := map[engine.Engine][]*servers.Proxy{}
	h := redistest.Kit{Name: name, Polls: true, Kill: func(e engine.Engine) { e.(*Engine).close() }}.Harness("")
	h.Patience = 30 * time.Second // more than a master's time
	h.ShortTTL = time.Second      // a try asks several servers, and must take less
	h.SideBySide = true
	h.New = func(t testing.TB) engine.Engine {
		teach(t, all)
		var ps []*servers.Proxy
		var at []string
		for _, r := range all {
			p := servers.ProxyTo(t, r.Addr)
			ps, at = append(ps, p), append(at, p.Addr)
		}
		e := open(t, urlOf(params, at...))
		mu.Lock()
		defer mu.Unlock()
		proxies[e] = ps
		return e
	}
	h.Restart = restart
	h.Forget = func(t testing.TB) {
		for _, r := range all {
			// The claims are forgotten, and not that the server keeps what it has:
			// a new client would wait until MaxTTL after its start.
			run := do(t, r, "HGET", side+"run", "run").(string)
			do(t, r, "FLUSHALL")
			do(t, r, "HSET", side+"run", "run", run, "survived", "1")
		}
	}
	h.LoseReply = func(_ testing.TB, e engine.Engine) func() bool {
		mu.Lock()
		defer mu.Unlock()
		ps := proxies[e]
		for _, p := range ps {
			p.LoseReply("EVALSHA", "EVAL")
		}
		return func() bool { return slices.ContainsFunc(ps, func(p *servers.Proxy) bool { return p.Lost() > 0 }) }
	}
	h.CountKeys = func(t testing.TB) (n int) {
		for _, r := range all {
			n += redistest.Kit{}.Lasting(t, r)
		}
		return n
	}
	h.RefuseConnections = func(t testing.TB) func() {
		var ends []func()
		for _, r := range all {
			ends = append(ends, full(t, r))
		}
		restore := func() {
			for _, end := range ends {
				end()
			}
		}
		t.Cleanup(restore)
		return restore
	}
	keys := (&Engine{opts: Options{Layout: l}}).keys
	h.Beside = func(name string) []string { return append(keys(name)[1:], side+"run", side+name) }
	h.Spoil = map[string]func(testing.TB, string){}
	for kind, put := range map[string][]string{
		"hash": {"HSET", "", "m", ""}, "list": {"RPUSH", "", ""}, "empty string": {"SET", "", ""}, "bytes": {"SET", "", strings.Repeat("\xff", 200)},
		"queue of waiters": {"ZADD", "", "-inf", ""}, "our mark and no more": {"SET", "", "L1" + strings.Repeat("\xff", 96)},
		"the highest counter": {"SET", "", record(engine.MaxTicket - 1)}, "lock of two threads": {"HSET", "", "a:1", "1", "b:2", "1"},
	} {
		for i, place := range []string{"the lock", "what is beside it", "who waits"} {
			for where, some := range map[string][]*servers.RedisServer{"every master": all, "one master": all[:1]} {
				if testing.Short() && (place == "what is beside it") != (where == "one master") {
					continue
				}
				h.Spoil["a "+kind+" at "+place+" on "+where] = func(t testing.TB, name string) {
					put := slices.Clone(put)
					put[1] = keys(name)[i]
					for _, r := range some {
						// In one step: who holds takes again what a master forgot.
						do(t, r, append([]string{"EVAL", "redis.call('DEL', ARGV[2]) redis.call(unpack(ARGV))", "0"}, put...)...)
						t.Cleanup(func() { do(t, r, "DEL", put[1]) })
					}
				}
			}
		}
	}
	enginetest.Run(t, h)
}

// full has a server take no more connections. What it returns, called once or twice,
// ends that.
func full(t testing.TB, r *servers.RedisServer) (restore func()) {
	t.Helper()
	c, err := servers.DialRedis(r.Socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := func(most string) {
		if _, err := c.Do("CONFIG", "SET", "maxclients", most); err != nil {
			t.Error(err)
		}
	}
	set("1")
	return sync.OnceFunc(func() {
		set("10000")
		c.Close()
	})
}
