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
	"leasehold/engine/redis/internal/redistest"
	"leasehold/engine/redis/internal/wire"
	"leasehold/internal/servers"
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
const easy = "timeout=2s&restart-delay=off"

func open(t testing.TB, url string) *Engine {
	t.Helper()
	return redistest.Kit{Open: Open}.Opened(t, url).(*Engine)
}

func teach(t testing.TB, all []*servers.RedisServer) {
	t.Helper()
	for _, l := range []Layout{Redsync, Redisson} {
		s := newScripts(true, l)
		for _, r := range all {
			for _, one := range []*wire.Script{s.join, s.stamp, s.renew, s.retake, s.leave, s.evict, s.read} {
				do(t, r, "SCRIPT", "LOAD", one.Text())
			}
		}
	}
}

func TestConformance(t *testing.T)         { conforms(t, "redlock", Redsync) }
func TestConformanceRedisson(t *testing.T) { conforms(t, "redlock-redisson", Redisson) }

// conforms runs the suite on five masters that sync every write, with the
// delay after a restart in force: whoever kept everything votes at once.
func conforms(t *testing.T, name string, l Layout) {
	all := masters(t, 5, &servers.RedisOptions{Durable: true})
	params := "layout=" + string(l) + "&timeout=10s" // the machine may be busy with others
	open(t, urlOf(params, addrs(all)...)).Close()    // looks at each run
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
	h.Spoil = spoils(l, all)
	h.CountKeys = func(t testing.TB) (n int) {
		for _, r := range all {
			n += redistest.Kit{}.Lasting(t, r)
		}
		return n
	}
	enginetest.Run(t, h)
}

// spoils put somebody's data where one of a name's keys is, on all masters.
func spoils(l Layout, all []*servers.RedisServer) map[string]func(testing.TB, string) {
	keys := (&Engine{opts: Options{Layout: l}}).keys
	of := func(key int, put ...string) func(testing.TB, string) {
		return func(t testing.TB, name string) {
			k := keys(name)[key]
			args := slices.Clone(put)
			args[1] = k
			for _, r := range all {
				do(t, r, "DEL", k)
				do(t, r, args...)
				t.Cleanup(func() { do(t, r, "DEL", k) })
			}
		}
	}
	kinds := map[string]func(testing.TB, string){
		"a list for the lock":      of(0, "RPUSH", "", "v"),
		"two fields for the lock":  of(0, "HSET", "", "a", "1", "b", "1"),
		"a string beside the lock": of(1, "SET", "", "v"),
		"a hash beside the lock":   of(1, "HSET", "", "f", "v"),
		"a string for who waits":   of(2, "SET", "", "v"),
	}
	if l == Redisson {
		kinds["a string for the lock"] = of(0, "SET", "", "v")
	}
	return kinds
}
